/**
 * SWIM messages: probes and gossip in datagrams, view exchange and fallback probe over streams, heartbeats of members
 * without datagrams.
 */
import { datagramBytesMax } from '../base/ports.ts';
import { field, list, optional, record } from './codec/compound.ts';
import type { ValueOf } from './codec/field-type.ts';
import { type MessageOf, message } from './codec/message.ts';
import { nodeEntry } from './node-entry.ts';
import type { PushMessage } from './push.ts';
import { bool, i32, enumOf, u16, u32, u8 } from './codec/numbers.ts';
import { bytes, nodeId, text } from './codec/strings.ts';

const members = ['gate', 'manager', 'worker'] as const;
export const embeddedBytesMax = 512;
const claimsInDatagramMax = 32;
export const viewClaimsMax = 20_000;
export const viewClaimsBytesMax = 8_000_000;
const viewBytesMax = viewClaimsBytesMax + 1_000;

const claim = record('claim', {
  kind: field(1, enumOf('join', 'alive', 'suspect', 'dead', 'left'), 'What is said.'),
  id: field(2, nodeId, 'Of whom.'),
  generation: field(3, u32, 'Of which of its lives.'),
  incarnation: field(4, u32, 'Of which incarnation within that life.'),
  by: field(5, nodeId, 'Who found it.'),
  refused: field(6, bool, 'The host of the member refused: its port is closed.'),
  entry: field(7, optional(nodeEntry), 'Where to find it; in join and alive.'),
});

export const embeddingRoles = ['gate', 'manager', 'worker'] as const;
export type EmbeddingRole = (typeof embeddingRoles)[number];

export const embeddedPart = record('embeddedPart', {
  role: field(1, enumOf(...embeddingRoles), 'Which role of the sender wants it known.'),
  state: field(2, bytes(embeddedBytesMax), 'What it wants known, in words of its own.'),
});

export type EmbeddedPart = ValueOf<typeof embeddedPart>;

/** A point of membership/state/coordinates.ts in whole microseconds and thousandths, which is finer than any measurement. */
export const coordinate = record('coordinate', {
  pointUs: field(1, list(i32, 8), 'The point.'),
  heightUs: field(2, u32, 'Its height above the plane.'),
  errorPermille: field(3, u16, 'How unsure it is.'),
});

const incarnation = field(1, u32, 'Of the sender: a message from it is proof of its life.');
const claims = field(3, list(claim, claimsInDatagramMax), 'Gossip.');

const ping = message({
  kind: 'ping',
  tag: 32,
  carrier: 'datagram',
  from: members,
  bytesMax: datagramBytesMax,
  doc: 'Are you there? Answered by ack. Carries what is said about the receiver first.',
  fields: {
    incarnation,
    seq: field(2, u32, 'Named again in the ack.'),
    claims,
    stateVersion: field(4, optional(u32), 'Of the embedded state that the sender has of the receiver.'),
  },
});

export const ack = message({
  kind: 'ack',
  tag: 33,
  carrier: 'datagram',
  from: members,
  bytesMax: datagramBytesMax,
  doc: 'I am here; and what my role wants known.',
  fields: {
    incarnation,
    seq: field(2, u32, 'Of the ping.'),
    claims,
    health: field(4, u8, 'Local health, 0 to 8.'),
    stuck: field(5, bool, 'The main loop of the sender does not move.'),
    viewHash: field(6, u32, 'Equal views have equal hashes.'),
    coordinate: field(7, optional(coordinate), 'Where the sender stands in the network.'),
    stateVersion: field(8, optional(u32), 'Of the embedded state; grows within one life of the sender.'),
    state: field(
      9,
      list(embeddedPart, embeddingRoles.length),
      'The embedded state, together with its version, when the receiver does not have it yet.',
    ),
    lagMs: field(10, u32, 'How late the main loop of the sender was lately.'),
  },
});

const pingRequest = message({
  kind: 'pingRequest',
  tag: 34,
  carrier: 'datagram',
  from: members,
  bytesMax: datagramBytesMax,
  doc: 'Probe somebody for me. Answered by indirectAck or nack.',
  fields: {
    incarnation,
    seq: field(2, u32, 'Named again in the answer.'),
    claims,
    target: field(4, nodeId, 'Whom to probe.'),
    timeoutMs: field(5, u32, 'Answer with a nack after this time.'),
  },
});

const indirectAck = message({
  kind: 'indirectAck',
  tag: 35,
  carrier: 'datagram',
  from: members,
  bytesMax: datagramBytesMax,
  doc: 'The one you asked me to probe has answered.',
  fields: { incarnation, seq: field(2, u32, 'Of the pingRequest.'), claims },
});

const nack = message({
  kind: 'nack',
  tag: 36,
  carrier: 'datagram',
  from: members,
  bytesMax: datagramBytesMax,
  doc: 'I am here and tried, but it has not answered me.',
  fields: {
    incarnation,
    seq: field(2, u32, 'Of the pingRequest.'),
    claims,
    refused: field(4, bool, 'Its host refused me: the port is closed.'),
  },
});

const gossip = message({
  kind: 'gossip',
  tag: 37,
  carrier: 'datagram',
  from: members,
  bytesMax: datagramBytesMax,
  doc: 'News, without a question.',
  fields: { incarnation, claims },
});

const streamPing = message({
  kind: 'streamPing',
  tag: 38,
  carrier: 'stream',
  from: members,
  bytesMax: 64,
  doc: 'A probe by TCP: the way around lost datagrams, and the line that an observer holds.',
  fields: {},
});

const streamPong = message({
  kind: 'streamPong',
  tag: 39,
  carrier: 'stream',
  from: members,
  bytesMax: 64,
  doc: 'The answer to streamPing and to departure.',
  fields: { generation: field(1, u32, 'Which life answers.'), incarnation: field(2, u32, 'Which incarnation.') },
});

const sync = message({
  kind: 'sync',
  tag: 40,
  carrier: 'stream',
  from: members,
  bytesMax: viewBytesMax,
  doc: 'My view of the group, or only its hash. Answered by synced.',
  fields: {
    viewHash: field(1, u32, 'Of the sender.'),
    claims: field(
      2,
      list(claim, viewClaimsMax),
      'The claims that the receiver may not know; the sender itself, unless another one vouches for it.',
    ),
    reply: field(3, enumOf('differences', 'nothing'), 'Whether the receiver should send its view back if it differs.'),
  },
});

const synced = message({
  kind: 'synced',
  tag: 41,
  carrier: 'stream',
  from: members,
  bytesMax: viewBytesMax,
  doc: 'The answer to sync: my view, or nothing when both are the same.',
  fields: {
    viewHash: field(1, u32, 'Of the one who answers, after it has taken over what it was told.'),
    claims: field(2, list(claim, viewClaimsMax), 'Its view.'),
    id: field(3, nodeId, 'Who answers.'),
  },
});

const departure = message({
  kind: 'departure',
  tag: 42,
  carrier: 'stream',
  from: members,
  bytesMax: 512,
  doc: 'I leave on purpose: do not take the closed connection for a crash. Answered by streamPong.',
  fields: { incarnation, reason: field(2, text(200), 'For people.') },
});

export const membershipMessages = [
  ping,
  ack,
  pingRequest,
  indirectAck,
  nack,
  gossip,
  streamPing,
  streamPong,
  sync,
  synced,
  departure,
] as const;

export type MembershipMessage = MessageOf<typeof membershipMessages> | PushMessage;
