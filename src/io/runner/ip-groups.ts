/**
 * IP addresses as eight 16-bit groups for the network guard, IPv4 in its IPv4-mapped form. User code may have changed
 * every prototype, so this file calls no method: only operators, indices and objects without a prototype, and no array
 * destructuring, which would call an iterator.
 */
export type IpGroups = [number, number, number, number, number, number, number, number];

const digitValues: Record<string, number> = Object.create(null) as Record<string, number>;
for (let value = 0; value < 16; value++) {
  digitValues[value.toString(16)] = value;
  digitValues[value.toString(16).toUpperCase()] = value;
}

/** Undefined if the text is not an IP address. */
export function parseIpGroups(text: string): IpGroups | undefined {
  for (let at = 0; at < text.length; at++) if (text[at] === ':') return parseV6(text);
  const groups: IpGroups = [0, 0, 0, 0, 0, 0xffff, 0, 0];
  return parseV4Into(text, 0, text.length, groups, 6) ? groups : undefined;
}

/** Writes an IPv4 address into two groups, starting at `index`. */
function parseV4Into(text: string, from: number, to: number, groups: IpGroups, index: number): boolean {
  let part = 0;
  let value = 0;
  let length = 0;
  const parts = [0, 0, 0, 0];
  for (let at = from; at <= to; at++) {
    const digit = at === to ? undefined : digitValues[text[at] as string];
    if (digit !== undefined && digit < 10 && length < 3) {
      value = value * 10 + digit;
      length += 1;
    } else if ((at === to || text[at] === '.') && length > 0 && value < 256 && part < 4) {
      parts[part] = value;
      part += 1;
      value = 0;
      length = 0;
    } else return false;
  }
  groups[index] = (parts[0] as number) * 256 + (parts[1] as number);
  groups[index + 1] = (parts[2] as number) * 256 + (parts[3] as number);
  return part === 4;
}

function parseV6(text: string): IpGroups | undefined {
  const groups: IpGroups = [0, 0, 0, 0, 0, 0, 0, 0];
  let count = 0;
  let gap = -1;
  let value = 0;
  let length = 0;
  let start = 0;
  for (let at = 0; at <= text.length; at++) {
    const char = at === text.length || text[at] === '%' ? ':' : (text[at] as string);
    const isEnd = at === text.length || text[at] === '%';
    const digit = digitValues[char];
    if (char === '.') {
      let to = at;
      while (to < text.length && text[to] !== '%') to += 1;
      if (count > 6 || !parseV4Into(text, start, to, groups, count)) return undefined;
      count += 2;
      length = 0;
      break;
    } else if (digit !== undefined && length < 4) {
      if (count > 7) return undefined;
      value = value * 16 + digit;
      length += 1;
    } else if (char === ':') {
      if (length > 0) {
        groups[count] = value;
        count += 1;
      } else if (!isEnd && at > 0 && text[at - 1] === ':') {
        if (gap >= 0) return undefined;
        gap = count;
      } else if (isEnd ? gap !== count : text[at + 1] !== ':') return undefined;
      value = 0;
      length = 0;
      start = at + 1;
      if (isEnd) break;
    } else return undefined;
  }
  if (gap < 0) return count === 8 ? normalizeV4(groups) : undefined;
  return count < 8 ? normalizeV4(expandGap(groups, count, gap)) : undefined;
}

/** Moves the groups after `::` to the end. */
function expandGap(groups: IpGroups, count: number, gap: number): IpGroups {
  const out: IpGroups = [0, 0, 0, 0, 0, 0, 0, 0];
  for (let at = 0; at < gap; at++) out[at] = groups[at] as number;
  for (let at = gap; at < count; at++) out[8 - count + at] = groups[at] as number;
  return out;
}

/** Turns an IPv4-compatible address (`::10.0.0.1`) into an IPv4-mapped one, because a system may treat it as such. */
function normalizeV4(groups: IpGroups): IpGroups {
  for (let at = 0; at < 5; at++) if (groups[at] !== 0) return groups;
  if (groups[5] === 0 && groups[6] !== 0) groups[5] = 0xffff;
  return groups;
}

function isV4(groups: IpGroups): boolean {
  return (
    groups[5] === 0xffff && groups[0] === 0 && groups[1] === 0 && groups[2] === 0 && groups[3] === 0 && groups[4] === 0
  );
}

/** A text that is equal for equal addresses. */
export function ipGroupsKey(groups: IpGroups): string {
  let text = '';
  for (let at = 0; at < 8; at++) text += `${groups[at] as number}.`;
  return text;
}

/** 169.254.0.0/16 and fe80::/10. */
export function isLinkLocalGroups(groups: IpGroups): boolean {
  return isV4(groups) ? groups[6] === 0xa9fe : (groups[0] & 0xffc0) === 0xfe80;
}

/** 127.0.0.0/8, 0.0.0.0/8, ::1 and ::. */
export function isLoopbackGroups(groups: IpGroups): boolean {
  if (isV4(groups)) return groups[6] >> 8 === 127 || groups[6] >> 8 === 0;
  for (let at = 0; at < 7; at++) if (groups[at] !== 0) return false;
  return groups[7] <= 1;
}

/** Multicast and broadcast. */
export function isNonUnicastGroups(groups: IpGroups): boolean {
  return isV4(groups) ? groups[6] >> 8 >= 224 : groups[0] >> 8 === 0xff;
}

export function isPrivateGroups(groups: IpGroups): boolean {
  if (isLoopbackGroups(groups)) return true;
  if (!isV4(groups)) return (groups[0] & 0xfe00) === 0xfc00;
  const first = groups[6] >> 8;
  const second = groups[6] & 0xff;
  return first === 10 || (first === 172 && second >= 16 && second < 32) || (first === 192 && second === 168);
}
