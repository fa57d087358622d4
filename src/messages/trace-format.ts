/**
 * The human-readable form of membership and election messages for traces and golden tests, with one spelling per
 * message: `formatTraceMessage` prints exactly what `parseTraceMessage` accepts. Never used on the wire.
 *
 *   message  = verb [":" number] [":" granted] ">" address *( "|" update ) [ "#" base64 state ]
 *   update   = ("J" | "L" | "A" | "S" | "D") ":" address ":" incarnation
 *
 *   ack>10.0.0.5:8000|J:10.0.0.20:8003:0|A:[fe80::1]:8001:5#eyJ2IjoxfQ==
 * */
import { RemusterError } from '../base/errors.ts';
import type { Address } from '../base/ports.ts';
import { decodeError } from './codec/decode-error.ts';

const messageLengthMax = 4_096;
const updatesMax = 64;
const stateBytesMax = 512;

/** The details between the verb and the `>`. */
const verbs = {
  probe: 'none',
  ack: 'none',
  'ping-req': 'none',
  join: 'none',
  leave: 'none',
  alive: 'incarnation',
  suspect: 'incarnation',
  dead: 'incarnation',
  'pre-vote': 'term',
  'pre-vote-response': 'vote',
  'vote-req': 'term',
  'vote-response': 'vote',
  leader: 'term',
  heartbeat: 'term',
} as const;

type Verbs = typeof verbs;
type VerbWith<Detail> = { [V in keyof Verbs]: Verbs[V] extends Detail ? V : never }[keyof Verbs];

type TraceHead =
  | { readonly verb: VerbWith<'none'> }
  | { readonly verb: VerbWith<'incarnation'>; readonly incarnation: number }
  | { readonly verb: VerbWith<'term'>; readonly term: number }
  | { readonly verb: VerbWith<'vote'>; readonly term: number; readonly granted: boolean };

const changeLetters = { join: 'J', leave: 'L', alive: 'A', suspect: 'S', dead: 'D' } as const;
const changes = Object.keys(changeLetters) as readonly TraceUpdateKind[];

export type TraceUpdateKind = keyof typeof changeLetters;
export type TraceUpdate = { readonly change: TraceUpdateKind; readonly address: Address; readonly incarnation: number };

export type TraceMessage = TraceHead & {
  /** Of the node that the message is about: the target of a probe, the sender of an ack. */
  readonly address: Address;
  readonly updates: readonly TraceUpdate[];
  readonly state: Uint8Array | undefined;
};

export function formatTraceMessage(message: TraceMessage): string {
  const { address, updates, state } = message;
  if (updates.length > updatesMax) throw new RemusterError('TOO_LARGE', `more than ${updatesMax} updates`);
  const gossip = updates.map(
    (update) => `|${changeLetters[update.change]}:${addressText(update.address)}:${numberText(update.incarnation)}`,
  );
  const text = `${headText(message)}>${addressText(address)}${gossip.join('')}${stateText(state)}`;
  if (text.length > messageLengthMax) throw new RemusterError('TOO_LARGE', 'a trace message is too long');
  return text;
}

function headText(head: TraceHead): string {
  const { verb } = head;
  if (!Object.hasOwn(verbs, verb)) throw new RemusterError('BAD_ARGUMENT', 'unknown verb');
  if ('granted' in head) return `${verb}:${numberText(head.term)}:${head.granted ? 'true' : 'false'}`;
  if ('term' in head) return `${verb}:${numberText(head.term)}`;
  return 'incarnation' in head ? `${verb}:${numberText(head.incarnation)}` : verb;
}

function addressText(address: Address): string {
  const text = formatTraceAddress(address);
  if (text === undefined) throw new RemusterError('BAD_ARGUMENT', 'a host or port cannot be formatted');
  return text;
}

function numberText(value: number): string {
  if (Number.isSafeInteger(value) && value >= 0) return String(value);
  throw new RemusterError('BAD_ARGUMENT', 'a term or incarnation is not in 0..2^53-1');
}

function stateText(state: Uint8Array | undefined): string {
  if (state === undefined) return '';
  if (state.length > stateBytesMax) throw new RemusterError('TOO_LARGE', `state exceeds ${stateBytesMax} bytes`);
  if (state.length === 0) throw new RemusterError('BAD_ARGUMENT', 'an empty state cannot be formatted: omit it');
  return `#${btoa(String.fromCharCode(...state))}`;
}

export function parseTraceMessage(text: string): TraceMessage {
  if (text.length > messageLengthMax) throw decodeError('grammarLength', 'a trace message is too long');
  const [body, state, ...more] = text.split('#', 3);
  if (more.length > 0) throw decodeError('grammarState', 'a trace message has more than one state');
  const [head, ...updates] = (body as string).split('|', updatesMax + 2);
  if (updates.length > updatesMax)
    throw decodeError('grammarLength', `a trace message has more than ${updatesMax} updates`);
  const end = (head as string).indexOf('>');
  if (end < 0) throw decodeError('grammarSentence', 'a trace message has no >');
  return {
    ...parseHead((head as string).slice(0, end)),
    address: addressOf((head as string).slice(end + 1)),
    updates: updates.map(parseUpdate),
    state: state === undefined ? undefined : parseState(state),
  };
}

const headPattern = /^([a-z-]{1,20})(?::(\d{1,16}))?(?::(true|false))?$/;

function parseHead(text: string): TraceHead {
  const [, verb, number, granted] = headPattern.exec(text) ?? [];
  if (verb === undefined || !isVerb(verb)) throw decodeError('grammarSentence', 'a trace message has no known verb');
  const detail = verbs[verb];
  if ((granted !== undefined) !== (detail === 'vote') || (number === undefined) !== (detail === 'none')) {
    throw decodeError('grammarSentence', `${verb} has the wrong details`);
  }
  if (detail === 'none') return { verb: verb as VerbWith<'none'> };
  const value = numberOf(number as string);
  if (detail === 'incarnation') return { verb: verb as VerbWith<'incarnation'>, incarnation: value };
  if (detail === 'term') return { verb: verb as VerbWith<'term'>, term: value };
  return { verb: verb as VerbWith<'vote'>, term: value, granted: granted === 'true' };
}

function isVerb(text: string): text is keyof Verbs {
  return Object.hasOwn(verbs, text);
}

const updatePattern = /^([JLASD]):(.+):(\d{1,16})$/;

function parseUpdate(text: string): TraceUpdate {
  const [, letter, address, incarnation] = updatePattern.exec(text) ?? [];
  const change = changes.find((one) => changeLetters[one] === letter);
  if (change === undefined) throw decodeError('grammarUpdate', 'an update is not TYPE:HOST:PORT:INCARNATION');
  return { change, address: addressOf(address as string), incarnation: numberOf(incarnation as string) };
}

function addressOf(text: string): Address {
  const address = parseTraceAddress(text);
  if (address === undefined) throw decodeError('grammarAddress', 'an address is not host:port');
  return address;
}

function numberOf(digits: string): number {
  const value = Number(digits);
  if (!Number.isSafeInteger(value) || String(value) !== digits)
    throw decodeError('grammarNumber', 'a number is out of bounds');
  return value;
}

const base64Pattern = /^[A-Za-z0-9+/]+={0,2}$/;

function parseState(text: string): Uint8Array {
  if (!base64Pattern.test(text) || text.length % 4 !== 0) throw decodeError('grammarState', 'a state is not base64');
  if (text.length > Math.ceil(stateBytesMax / 3) * 4) throw decodeError('grammarLength', 'a state is too long');
  const binary = atob(text);
  // Bits that padding leaves unused must be zero, or one state would have several spellings.
  if (btoa(binary) !== text) throw decodeError('grammarState', 'a state is not canonical base64');
  if (binary.length > stateBytesMax) throw decodeError('grammarLength', 'a state is too long');
  return Uint8Array.from(binary, (letter) => letter.charCodeAt(0));
}

/*
 * Addresses: `host:port`, IPv6 in brackets. Both directions are strict, because the text around an address gives a meaning
 * to `|`, `>`, `#` and the newline: a host with one of them is rejected, never escaped.
 */

const hostPattern = /^[A-Za-z0-9](?:[A-Za-z0-9._-]{0,253}[A-Za-z0-9])?$/;
const addressPattern = /^(?:\[([^[\]]{2,64})\]|([^:[\]]{1,255})):(0|[1-9]\d{0,4})$/;
const ipv6Pattern = /^([0-9A-Fa-f:]+?)(:\d{1,3}(?:\.\d{1,3}){3})?(?:%[A-Za-z0-9._-]{1,15})?$/;
const portMax = 0xffff;

/** Undefined for an invalid host or port. */
function formatTraceAddress({ host, port }: Address): string | undefined {
  if (!Number.isInteger(port) || port < 0 || port > portMax) return undefined;
  if (isIpv6(host)) return `[${host}]:${port}`;
  return hostPattern.test(host) ? `${host}:${port}` : undefined;
}

function parseTraceAddress(text: string): Address | undefined {
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
