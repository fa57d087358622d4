/**
 * Addresses as people write them: `host:port`, IPv6 in brackets. Strict on both ways, because the text around them
 * gives a meaning to `|`, `>`, `#` and the newline: a host that contains one of them is refused, never escaped.
 */
import type { Address } from '../base/ports.ts';

const hostPattern = /^[A-Za-z0-9](?:[A-Za-z0-9._-]{0,253}[A-Za-z0-9])?$/;
const addressPattern = /^(?:\[([^[\]]{2,64})\]|([^:[\]]{1,255})):(0|[1-9]\d{0,4})$/;
const ipv6Pattern = /^([0-9A-Fa-f:]+?)(:\d{1,3}(?:\.\d{1,3}){3})?(?:%[A-Za-z0-9._-]{1,15})?$/;
const portMax = 0xffff;

/** Undefined if host or port are not what an address may hold. */
export function formatTraceAddress({ host, port }: Address): string | undefined {
  if (!Number.isInteger(port) || port < 0 || port > portMax) return undefined;
  if (isIpv6(host)) return `[${host}]:${port}`;
  return hostPattern.test(host) ? `${host}:${port}` : undefined;
}

export function parseTraceAddress(text: string): Address | undefined {
  const [, ipv6, host, port] = addressPattern.exec(text) ?? [];
  const known = ipv6 === undefined ? host !== undefined && hostPattern.test(host) : isIpv6(ipv6);
  if (!known || Number(port) > portMax) return undefined;
  return { host: (ipv6 ?? host) as string, port: Number(port) };
}

/** Eight groups of up to four digits, one run of zero groups written `::`, the last two possibly as IPv4. */
function isIpv6(host: string): boolean {
  if (host.length > 64) return false;
  const [, groups, ipv4] = ipv6Pattern.exec(host) ?? [];
  if (groups === undefined) return false;
  // `::1.2.3.4`: the colon before the IPv4 part was matched as its own.
  const hex = ipv4 !== undefined && groups.endsWith(':') ? `${groups}:` : groups;
  const halves = hex.split('::');
  const parts = halves.flatMap((half) => (half === '' ? [] : half.split(':')));
  if (!parts.every((part) => /^[0-9A-Fa-f]{1,4}$/.test(part))) return false;
  if (
    ipv4 !== undefined &&
    !ipv4
      .slice(1)
      .split('.')
      .every((part) => Number(part) <= 255)
  )
    return false;
  const count = parts.length + (ipv4 === undefined ? 0 : 2);
  return halves.length === 1 ? count === 8 && hex !== '' : halves.length === 2 && count <= 7;
}
