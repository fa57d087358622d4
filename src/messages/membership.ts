/**
 * SWIM messages: probes and gossip in datagrams, view exchange and fallback probe over streams, heartbeats of members
 * without datagrams.
 */
import { datagramBytesMax } from '../base/ports.ts';
import { field, list, optional, record } from './codec/compound.ts';
import type { ValueOf } from './codec/field-type.ts';
import { type MessageOf, message } from './codec/message.ts';
import { nodeEntry } from './node-entry.ts';
import { bool, i32, enumOf, u16, u32, u8 } from './codec/numbers.ts';
import { bytes, nodeId, text } from './codec/strings.ts';

const nodeRoles = ['gate', 'manager', 'worker'] as const;
export const embeddedBytesMax = 512;
const claimsInDatagramMax = 32;
export const viewClaimsMax = 20_000;
export const viewClaimsBytesMax = 8_000_000;
const viewBytesMax = viewClaimsBytesMax + 1_000;

const claim = record('claim', {
  kind: field(1, enumOf('join', 'alive', 'suspect', 'dead', 'left'), 'Claimed state.'),
  id: field(2, nodeId, 'Node id of the member.'),
  generation: field(3, u32, 'Generation of the member.'),
  incarnation: field(4, u32, 'Incarnation within that generation.'),
  by: field(5, nodeId, 'Node that made the claim.'),
  refused: field(6, bool, 'The host of the member refused the connection: its port is closed.'),
  entry: field(7, optional(nodeEntry), 'Identity and address; in join and alive.'),
});

export const embeddingRoles = ['gate', 'manager', 'worker'] as const;
export type EmbeddingRole = (typeof embeddingRoles)[number];

export const embeddedPart = record('embeddedPart', {
  role: field(1, enumOf(...embeddingRoles), 'Role of the sender that publishes it.'),
  state: field(2, bytes(embeddedBytesMax), 'Bytes in a format of that role.'),
});

export type EmbeddedPart = ValueOf<typeof embeddedPart>;

/** Wire form of membership/state/coordinates.ts, in microseconds and thousandths: finer than any measurement. */
export const coordinate = record('coordinate', {
  pointUs: field(1, list(i32, 8), 'Vector.'),
  heightUs: field(2, u32, 'Height.'),
  errorPermille: field(3, u16, 'Relative error estimate.'),
});

const incarnation = field(1, u32, 'Incarnation of the sender: its message proves that it is alive in it.');
const claims = field(3, list(claim, claimsInDatagramMax), 'Piggybacked gossip.');

const ping = message({
  kind: 'ping',
  tag: 32,
  carrier: 'datagram',
  from: nodeRoles,
  bytesMax: datagramBytesMax,
  doc: 'Probes the receiver (SWIM: ping). Claims about the receiver come first. Answered by ack.',
  fields: {
    incarnation,
    seq: field(2, u32, 'Sequence number, repeated in the ack.'),
    claims,
    stateVersion: field(4, optional(u32), 'Version of the embedded state that the sender has from the receiver.'),
  },
});

const ack = message({
  kind: 'ack',
  tag: 33,
  carrier: 'datagram',
  from: nodeRoles,
  bytesMax: datagramBytesMax,
  doc: 'Reply to ping, with the embedded state of the sender.',
  fields: {
    incarnation,
    seq: field(2, u32, 'Sequence number of the ping.'),
    claims,
    health: field(4, u8, 'Local health score, 0 to 8.'),
    stuck: field(5, bool, 'The main loop of the sender is blocked.'),
    viewHash: field(6, u32, 'Hash of the view of the sender; equal views have equal hashes.'),
    coordinate: field(7, optional(coordinate), 'Network coordinate of the sender.'),
    stateVersion: field(8, optional(u32), 'Version of the embedded state; grows within one generation of the sender.'),
    state: field(
      9,
      list(embeddedPart, embeddingRoles.length),
      'Embedded state, if the receiver does not have this version.',
    ),
    lagMs: field(10, u32, 'Recent delay of the main loop of the sender.'),
  },
});

const pingRequest = message({
  kind: 'pingRequest',
  tag: 34,
  carrier: 'datagram',
  from: nodeRoles,
  bytesMax: datagramBytesMax,
  doc: 'Asks the receiver to probe a target (SWIM: ping-req). Answered by indirectAck or nack.',
  fields: {
    incarnation,
    seq: field(2, u32, 'Sequence number, repeated in the reply.'),
    claims,
    target: field(4, nodeId, 'Node to probe.'),
    timeoutMs: field(5, u32, 'Time after which the receiver replies with a nack.'),
  },
});

const indirectAck = message({
  kind: 'indirectAck',
  tag: 35,
  carrier: 'datagram',
  from: nodeRoles,
  bytesMax: datagramBytesMax,
  doc: 'The target of the pingRequest replied.',
  fields: { incarnation, seq: field(2, u32, 'Sequence number of the pingRequest.'), claims },
});

const nack = message({
  kind: 'nack',
  tag: 36,
  carrier: 'datagram',
  from: nodeRoles,
  bytesMax: datagramBytesMax,
  doc: 'The helper is alive, but the target did not reply to it (Lifeguard: nack).',
  fields: {
    incarnation,
    seq: field(2, u32, 'Sequence number of the pingRequest.'),
    claims,
    refused: field(4, bool, 'The host of the target refused the connection: its port is closed.'),
  },
});

const gossip = message({
  kind: 'gossip',
  tag: 37,
  carrier: 'datagram',
  from: nodeRoles,
  bytesMax: datagramBytesMax,
  doc: 'Claims without a probe.',
  fields: { incarnation, claims },
});

const streamPing = message({
  kind: 'streamPing',
  tag: 38,
  carrier: 'stream',
  from: nodeRoles,
  bytesMax: 64,
  doc: 'A probe over TCP: the fallback when datagrams are lost, and the probe of crash observers. Answered by streamPong.',
  fields: {},
});

const streamPong = message({
  kind: 'streamPong',
  tag: 39,
  carrier: 'stream',
  from: nodeRoles,
  bytesMax: 64,
  doc: 'Reply to streamPing and to leave.',
  fields: {
    generation: field(1, u32, 'Generation of the sender.'),
    incarnation: field(2, u32, 'Incarnation of the sender.'),
  },
});

const syncView = message({
  kind: 'syncView',
  tag: 40,
  carrier: 'stream',
  from: nodeRoles,
  bytesMax: viewBytesMax,
  doc: 'Anti-entropy: the view of the sender, or only its hash. Answered by syncViewReply.',
  fields: {
    viewHash: field(1, u32, 'Hash of the view of the sender.'),
    claims: field(
      2,
      list(claim, viewClaimsMax),
      'Claims that the receiver may not know; includes the sender, unless a manager vouches for it.',
    ),
    reply: field(3, enumOf('differences', 'nothing'), 'Whether the receiver returns its view if it differs.'),
  },
});

const syncViewReply = message({
  kind: 'syncViewReply',
  tag: 41,
  carrier: 'stream',
  from: nodeRoles,
  bytesMax: viewBytesMax,
  doc: 'Reply to syncView: the view of the receiver, empty if both are equal.',
  fields: {
    viewHash: field(1, u32, 'Hash of the view of the sender, after it merged the claims of the request.'),
    claims: field(2, list(claim, viewClaimsMax), 'View of the sender.'),
    id: field(3, nodeId, 'Id of the sender.'),
  },
});

const leave = message({
  kind: 'leave',
  tag: 42,
  carrier: 'stream',
  from: nodeRoles,
  bytesMax: 512,
  doc: 'The sender leaves on purpose: its closed connections are no crash. Answered by streamPong.',
  fields: { incarnation, reason: field(2, text(200), 'Reason for people.') },
});

/*
 * Heartbeats over TCP, for members without datagrams and as a second detector for the others. One exchange serves both
 * sides: the ping proves to the manager that the member is alive, and the ack proves the same of the manager and tells
 * the member its state in the group. Both carry gossip, as ping and ack do.
 */

export const pushPing = message({
  kind: 'pushPing',
  tag: 46,
  carrier: 'stream',
  from: nodeRoles,
  bytesMax: datagramBytesMax,
  doc: 'Heartbeat to a manager. The first one of a member without datagrams is its join. Answered by pushAck.',
  fields: {
    incarnation: field(
      1,
      u32,
      'Incarnation of the sender; raised when it changes its manager and when it was declared dead.',
    ),
    seq: field(2, u32, 'Sequence number, repeated in the pushAck.'),
    claims: field(3, list(claim, claimsInDatagramMax), 'Piggybacked gossip.'),
    hearsYou: field(4, bool, 'The receiver replied to the previous pushPing: both directions work.'),
    datagrams: field(5, bool, 'The sender also replies to datagrams, so others probe it too.'),
    health: field(6, u8, 'Local health score, 0 to 8.'),
    stuck: field(7, bool, 'The main loop of the sender is blocked.'),
    lagMs: field(8, u32, 'Recent delay of the main loop of the sender.'),
    viewHash: field(9, u32, 'Hash of the view of the sender.'),
    stateVersion: field(10, optional(u32), 'Version of the embedded state.'),
    state: field(
      11,
      list(embeddedPart, embeddingRoles.length),
      'Embedded state as in ack, if the receiver does not have this version.',
    ),
  },
});

export const pushAck = message({
  kind: 'pushAck',
  tag: 47,
  carrier: 'stream',
  from: nodeRoles,
  bytesMax: datagramBytesMax,
  doc: 'Reply to pushPing: the state of the member in the group.',
  fields: {
    incarnation: field(1, u32, 'Incarnation of the sender.'),
    seq: field(2, u32, 'Sequence number of the pushPing.'),
    claims: field(3, list(claim, claimsInDatagramMax), 'Piggybacked gossip.'),
    verdict: field(
      4,
      enumOf('member', 'accused', 'superseded'),
      'accused: the group takes the member for suspect, dead or left, so it raises its incarnation above `known`. superseded: a later generation exists, so it stops.',
    ),
    known: field(5, u32, 'Incarnation of the member that the group knows.'),
    viewHash: field(6, u32, 'Hash of the view of the sender; if it differs, both exchange views.'),
    stateVersion: field(7, optional(u32), 'Version of the embedded state that the sender has from the member.'),
  },
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
  syncView,
  syncViewReply,
  leave,
  pushPing,
  pushAck,
] as const;

export type MembershipMessage = MessageOf<typeof membershipMessages>;
