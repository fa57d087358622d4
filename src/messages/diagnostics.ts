/** Read-only requests to a single node: its member list, and an echo to measure a connection. */
import type { Role } from '../base/ports.ts';
import { field, list, optional, record } from './codec/compound.ts';
import { coordinate } from './membership.ts';
import { message } from './codec/message.ts';
import { nodeEntry } from './node-entry.ts';
import { bool, enumOf, u32, u53, u8 } from './codec/numbers.ts';
import { bytes } from './codec/strings.ts';

const nodeRoles = ['gate', 'manager', 'worker'] as const satisfies readonly Role[];
const allRoles = [...nodeRoles, 'client'] as const satisfies readonly Role[];

const payloadBytesMax = 10_000_000;
const payload = bytes(payloadBytesMax);
/** The payload with header, key and length. */
const echoBytesMax = payloadBytesMax + 16;

export const memberView = record('memberView', {
  entry: field(1, nodeEntry, 'Identity and address.'),
  state: field(
    2,
    enumOf('alive', 'probe-failed', 'suspect', 'dead', 'left'),
    'State of the member as the receiver sees it.',
  ),
  incarnation: field(3, u32, 'Incarnation; grows each time the member refutes a suspicion.'),
  health: field(4, u8, 'Local health score: 0 is healthy, 8 is very slow.'),
  silentMs: field(5, u53, 'Time since the receiver last heard from the member.'),
  stuck: field(6, bool, 'Alive, but its main loop is blocked.'),
  lagMs: field(7, u32, 'Recent delay of its main loop.'),
  roundTripUs: field(8, optional(u32), 'Recent round trip, measured by the receiver.'),
  coordinate: field(9, optional(coordinate), 'Network coordinate of the member, if known.'),
});

export const listMembers = message({
  kind: 'listMembers',
  tag: 16,
  carrier: 'stream',
  from: allRoles,
  bytesMax: 256,
  doc: 'Asks for the member list. Answered by listMembersReply.',
  fields: {},
});

export const listMembersReply = message({
  kind: 'listMembersReply',
  tag: 17,
  carrier: 'stream',
  from: nodeRoles,
  bytesMax: 6_500_000,
  doc: 'Reply to listMembers.',
  fields: { members: field(1, list(memberView, 10_000), 'All members, the replying node included.') },
});

export const echo = message({
  kind: 'echo',
  tag: 18,
  carrier: 'stream',
  from: allRoles,
  bytesMax: echoBytesMax,
  doc: 'Measures a connection. Answered by echoReply with the same payload.',
  fields: { payload: field(1, payload, 'Any bytes.') },
});

export const echoReply = message({
  kind: 'echoReply',
  tag: 19,
  carrier: 'stream',
  from: nodeRoles,
  bytesMax: echoBytesMax,
  doc: 'Reply to echo.',
  fields: { payload: field(1, payload, 'Payload of the echo.') },
});
