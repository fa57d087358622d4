/**
 * Messages between main thread and membership thread, encoded like wire messages. They never leave the process, so they
 * have tags of their own.
 */
import { createCodec } from '../../messages/codec/codec.ts';
import { field, list, optional, record } from '../../messages/codec/compound.ts';
import { memberView } from '../../messages/diagnostics.ts';
import { embeddedPart, embeddingRoles } from '../../messages/membership.ts';
import { type MessageOf, message } from '../../messages/codec/message.ts';
import { nodeEntry } from '../../messages/node-entry.ts';
import { bool, enumOf, stateChanged, u16, u32, u53 } from '../../messages/codec/numbers.ts';
import { bytes, nodeId, text } from '../../messages/codec/strings.ts';
import { membershipEventTypes } from '../../membership/state/membership-event.ts';

const bodyBytesMax = 9_000_000;
const messageBytesMax = 9_500_000;
const peersMax = 1_000;
const rowsMax = 1_000;
const viewBytesMax = 2_000;
const countersMax = 1_000;
const secretBytesMax = 4_096;

let nextTag = 1;

function threadMessage<const K extends string, F extends Parameters<typeof message>[0]['fields']>(kind: K, fields: F) {
  const rest = { carrier: 'stream', from: ['worker'], bytesMax: messageBytesMax, doc: kind } as const;
  return message({ kind, tag: nextTag++, ...rest, fields });
}

const address = record('address', { host: field(1, text(255), 'Host.'), port: field(2, u16, 'Port.') });
const peer = record('peer', {
  id: field(1, nodeId, 'Id.'),
  host: field(2, text(255), 'Host.'),
  port: field(3, u16, 'Port.'),
});
const write = record('write', {
  key: field(1, text(200), 'Key.'),
  value: field(2, optional(bytes(bodyBytesMax)), 'Value; without it the key is deleted.'),
});
const counter = record('counter', {
  name: field(1, text(200), 'Name.'),
  value: field(2, u53, 'Value.'),
});
const requestId = field(1, u32, 'Pairs a request with its reply.');
const code = text(40);

/** The view stays encoded until it is used: members are reported more often than they are read. */
const reportedMember = record('reportedMember', {
  id: field(1, nodeId, 'The member.'),
  view: field(2, bytes(viewBytesMax), 'Encoded by memberViewCodec.'),
});
const viewMessage = message({
  ...{ kind: 'view', tag: 1, carrier: 'stream', from: ['worker'], bytesMax: viewBytesMax, doc: 'view' },
  fields: { view: field(1, memberView, 'The current view.') },
});

/** From the main thread. */
const toThread = [
  threadMessage('start', {
    incarnation: field(1, u32, 'Of the previous generation.'),
    known: field(2, list(address, peersMax), 'Members that the previous generation knew.'),
  }),
  threadMessage('join', { seeds: field(1, list(address, peersMax), 'Additional seeds.') }),
  threadMessage('beat', {}),
  threadMessage('disconnected', {
    peer: field(1, nodeEntry, 'The other end.'),
    reason: field(2, text(500), 'Why.'),
    graceful: field(3, bool, 'One of the two ends closed it on purpose.'),
  }),
  threadMessage('refused', {
    address: field(1, address, 'The address that refused.'),
    reason: field(2, text(500), 'Why.'),
  }),
  threadMessage('requestSucceeded', { requestId, body: field(2, bytes(bodyBytesMax), 'The reply.') }),
  threadMessage('requestFailed', {
    requestId,
    code: field(2, code, 'Why.'),
    stateChanged: field(3, stateChanged, 'By the request.'),
  }),
  threadMessage('incomingRequest', {
    requestId,
    from: field(2, nodeEntry, 'The sender.'),
    body: field(3, bytes(bodyBytesMax), 'The message.'),
  }),
  threadMessage('embed', {
    role: field(1, enumOf(...embeddingRoles), 'The role that publishes it.'),
    state: field(2, bytes(512), 'The embedded state.'),
  }),
  threadMessage('partition', { peers: field(1, list(peer, peersMax), 'Exactly these are cut off.') }),
  threadMessage('setSecrets', {
    current: field(1, optional(text(secretBytesMax)), 'Seals what is sent from now on.'),
    previous: field(2, list(text(secretBytesMax), 16), 'Accepted as well.'),
  }),
  threadMessage('leave', { reason: field(1, text(200), 'Shown to operators.') }),
] as const;

/** From the membership thread. */
const fromThread = [
  threadMessage('listening', { port: field(1, u16, 'Port of the datagrams.') }),
  threadMessage('failed', { code: field(1, code, 'Why.'), text: field(2, text(2_000), 'Message of the error.') }),
  threadMessage('request', {
    requestId,
    to: field(2, address, 'The receiver.'),
    timeoutMs: field(3, u53, 'Timeout.'),
    body: field(4, bytes(bodyBytesMax), 'The message.'),
  }),
  threadMessage('reply', { requestId, body: field(2, bytes(bodyBytesMax), 'The reply to incomingRequest.') }),
  threadMessage('replyError', {
    requestId,
    code: field(2, code, 'Why.'),
    stateChanged: field(3, stateChanged, 'By the request.'),
  }),
  threadMessage('event', {
    type: field(1, enumOf(...membershipEventTypes), 'Type of the event.'),
    id: field(2, nodeId, 'The member.'),
    name: field(3, text(63), 'Its name.'),
    generation: field(4, u32, 'Its generation.'),
    incarnation: field(5, u32, 'Its incarnation.'),
    why: field(6, text(2_000), 'The reason.'),
    accusers: field(7, list(text(63), 100), 'Names of members that suspect it.'),
    refusedTo: field(8, list(text(63), 100), 'Names of members whose connection was refused.'),
    portIsClosed: field(9, bool, 'Enough of them found the port closed.'),
  }),
  threadMessage('embedded', {
    id: field(1, nodeId, 'The member.'),
    generation: field(2, u32, 'Its generation.'),
    version: field(3, u32, 'Grows within a generation.'),
    parts: field(4, list(embeddedPart, embeddingRoles.length), 'By role.'),
  }),
  threadMessage('saveHints', { writes: field(1, list(write, 16), 'For the store.') }),
  threadMessage('members', {
    changed: field(1, list(reportedMember, rowsMax), 'Their current views.'),
    removed: field(2, list(nodeId, rowsMax), 'No longer known.'),
  }),
  threadMessage('counters', {
    membership: field(1, list(counter, countersMax), 'Counters that changed.'),
    transport: field(2, list(counter, countersMax), 'Counters of the datagrams that changed.'),
  }),
  threadMessage('joined', {}),
  threadMessage('requestBeat', {}),
  threadMessage('left', {}),
  threadMessage('halted', { error: field(1, text(2_000), 'Message of the internal error.') }),
] as const;

export const memberRowsMax = rowsMax;

export type ToMembershipThread = MessageOf<typeof toThread>;
export type FromMembershipThread = MessageOf<typeof fromThread>;

export const toMembershipThreadCodec = createCodec(toThread);
export const fromMembershipThreadCodec = createCodec(fromThread);
export const memberViewCodec = createCodec([viewMessage]);
