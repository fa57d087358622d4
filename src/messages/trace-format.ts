/**
 * The human-readable form of membership and election messages for traces and golden tests, with one spelling per
 * message. Never used on the wire.
 *
 *   sentence = verb [":" number] [":" granted] ">" address *( "|" update ) [ "#" base64 state ]
 *   update   = ("J" | "L" | "A" | "S" | "D") ":" address ":" incarnation
 *
 *   ack>10.0.0.5:8000|J:10.0.0.20:8003:0|A:[fe80::1]:8001:5#eyJ2IjoxfQ==
 *
 * There is one spelling for each sentence: what `parseTraceMessage` accepts, `formatTraceMessage` prints again letter
 * by letter.
 */
import { RemusterError } from '../base/errors.ts';
import type { Address } from '../base/ports.ts';
import { parseTraceAddress, formatTraceAddress } from './grammar-address.ts';
import { decodeError } from './codec/decode-error.ts';

const sentenceLengthMax = 4_096;
const updatesMax = 64;
const stateBytesMax = 512;

/** What stands between the verb and the `>`. */
const verbs = {
  probe: 'nothing',
  ack: 'nothing',
  'ping-req': 'nothing',
  join: 'nothing',
  leave: 'nothing',
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
  | { readonly verb: VerbWith<'nothing'> }
  | { readonly verb: VerbWith<'incarnation'>; readonly incarnation: number }
  | { readonly verb: VerbWith<'term'>; readonly term: number }
  | { readonly verb: VerbWith<'vote'>; readonly term: number; readonly granted: boolean };

const changeLetters = { join: 'J', leave: 'L', alive: 'A', suspect: 'S', dead: 'D' } as const;
const changes = Object.keys(changeLetters) as readonly TraceUpdateKind[];

export type TraceUpdateKind = keyof typeof changeLetters;
export type TraceUpdate = { readonly change: TraceUpdateKind; readonly address: Address; readonly incarnation: number };

export type TraceMessage = TraceHead & {
  /** Of the one it is about: the target of a probe, the sender of an ack. */
  readonly address: Address;
  readonly updates: readonly TraceUpdate[];
  readonly state: Uint8Array | undefined;
};

export function formatTraceMessage(sentence: TraceMessage): string {
  const { address, updates, state } = sentence;
  if (updates.length > updatesMax) throw new RemusterError('TOO_LARGE', `more than ${updatesMax} updates`);
  const gossip = updates.map(
    (update) => `|${changeLetters[update.change]}:${addressText(update.address)}:${numberText(update.incarnation)}`,
  );
  const text = `${openingText(sentence)}>${addressText(address)}${gossip.join('')}${stateText(state)}`;
  if (text.length > sentenceLengthMax) throw new RemusterError('TOO_LARGE', 'a sentence is too long');
  return text;
}

function openingText(opening: TraceHead): string {
  const { verb } = opening;
  if (!Object.hasOwn(verbs, verb)) throw new RemusterError('BAD_ARGUMENT', 'there is no such verb');
  if ('granted' in opening) return `${verb}:${numberText(opening.term)}:${opening.granted ? 'true' : 'false'}`;
  if ('term' in opening) return `${verb}:${numberText(opening.term)}`;
  return 'incarnation' in opening ? `${verb}:${numberText(opening.incarnation)}` : verb;
}

function addressText(address: Address): string {
  const text = formatTraceAddress(address);
  if (text === undefined) throw new RemusterError('BAD_ARGUMENT', 'a host or port cannot be printed');
  return text;
}

function numberText(value: number): string {
  if (Number.isSafeInteger(value) && value >= 0) return String(value);
  throw new RemusterError('BAD_ARGUMENT', 'a term or incarnation is not in 0..2^53-1');
}

function stateText(state: Uint8Array | undefined): string {
  if (state === undefined) return '';
  if (state.length > stateBytesMax) throw new RemusterError('TOO_LARGE', `state exceeds ${stateBytesMax} bytes`);
  if (state.length === 0) throw new RemusterError('BAD_ARGUMENT', 'an empty state cannot be printed; leave it out');
  return `#${btoa(String.fromCharCode(...state))}`;
}

export function parseTraceMessage(text: string): TraceMessage {
  if (text.length > sentenceLengthMax) throw decodeError('grammarLength', 'a sentence is too long');
  const [body, state, ...more] = text.split('#', 3);
  if (more.length > 0) throw decodeError('grammarState', 'a sentence has more than one state');
  const [head, ...updates] = (body as string).split('|', updatesMax + 2);
  if (updates.length > updatesMax) throw decodeError('grammarLength', `a sentence has more than ${updatesMax} updates`);
  const end = (head as string).indexOf('>');
  if (end < 0) throw decodeError('grammarSentence', 'a sentence has no >');
  return {
    ...parseOpening((head as string).slice(0, end)),
    address: addressOf((head as string).slice(end + 1)),
    updates: updates.map(parseUpdate),
    state: state === undefined ? undefined : parseState(state),
  };
}

const openingPattern = /^([a-z-]{1,20})(?::(\d{1,16}))?(?::(true|false))?$/;

function parseOpening(text: string): TraceHead {
  const [, verb, number, granted] = openingPattern.exec(text) ?? [];
  if (verb === undefined || !isVerb(verb)) throw decodeError('grammarSentence', 'a sentence has no known verb');
  const detail = verbs[verb];
  if ((granted !== undefined) !== (detail === 'vote') || (number === undefined) !== (detail === 'nothing')) {
    throw decodeError('grammarSentence', `${verb} has the wrong details`);
  }
  if (detail === 'nothing') return { verb: verb as VerbWith<'nothing'> };
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
