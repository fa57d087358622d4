/** Read-only requests to a single node: its member list, and an echo to measure a connection. */
import type { Role } from '../base/ports.ts';
import { field, list, optional, record } from './codec/compound.ts';
import { coordinate } from './membership.ts';
import { message } from './codec/message.ts';
import { nodeEntry } from './node-entry.ts';
import { bool, enumOf, u32, u53, u8 } from './codec/numbers.ts';
import { bytes } from './codec/strings.ts';

const members = ['gate', 'manager', 'worker'] as const satisfies readonly Role[];
const anybody = [...members, 'client'] as const satisfies readonly Role[];

const payloadBytesMax = 10_000_000;
const payload = bytes(payloadBytesMax);
/** Header, key and length around the payload. */
const echoBytesMax = payloadBytesMax + 16;

export const memberView = record('memberView', {
  entry: field(1, nodeEntry, 'Who it is.'),
  state: field(2, enumOf('alive', 'probe-failed', 'suspect', 'dead', 'left'), 'What the asked node thinks of it.'),
  incarnation: field(3, u32, 'Grows each time the member refutes a suspicion.'),
  health: field(4, u8, 'Its local health: 0 is well, 8 is very slow.'),
  silentMs: field(5, u53, 'How long the asked node has not heard of it.'),
  stuck: field(6, bool, 'Alive, but its main loop does not move.'),
  lagMs: field(7, u32, 'How late its main loop was lately.'),
  roundTripUs: field(8, optional(u32), 'To it and back, as the asked node measured lately.'),
  coordinate: field(9, optional(coordinate), 'Its place in the network, as far as it has told.'),
});

export const listMembers = message({
  kind: 'listMembers',
  tag: 16,
  carrier: 'stream',
  from: anybody,
  bytesMax: 256,
  doc: 'Whom do you know? Answered by memberList.',
  fields: {},
});

export const listMembersReply = message({
  kind: 'memberList',
  tag: 17,
  carrier: 'stream',
  from: members,
  bytesMax: 6_500_000,
  doc: 'The answer to listMembers.',
  fields: { members: field(1, list(memberView, 10_000), 'The asked node included.') },
});

export const echo = message({
  kind: 'echo',
  tag: 18,
  carrier: 'stream',
  from: anybody,
  bytesMax: echoBytesMax,
  doc: 'Send this back. Answered by echoed. Measures a connection.',
  fields: { payload: field(1, payload, 'Anything.') },
});

export const echoReply = message({
  kind: 'echoed',
  tag: 19,
  carrier: 'stream',
  from: members,
  bytesMax: echoBytesMax,
  doc: 'The answer to echo.',
  fields: { payload: field(1, payload, 'What came.') },
});
