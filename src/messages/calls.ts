/**
 * Wire messages of container calls: a routed call, a call to an owner, its status, a result stream. Every resend
 * carries the same call id, so a call runs once.
 */
import type { Role } from '../base/ports.ts';
import { field, list, optional, record } from './codec/compound.ts';
import type { ValueOf } from './codec/field-type.ts';
import { type MessageOf, message } from './codec/message.ts';
import { bool, enumOf, stateChanged, u32, u53, u8 } from './codec/numbers.ts';
import { methodName, callFastCodec, callReplyFastCodec, valueBytes } from './call-fast-codec.ts';
import { name, nodeId, text } from './codec/strings.ts';
import { valueBytesMax } from './codec/value.ts';

const nodeRoles = ['gate', 'manager', 'worker'] as const satisfies readonly Role[];
const allRoles = [...nodeRoles, 'client'] as const satisfies readonly Role[];

/** Fields around a value. Both together stay below the message limit of the transport, 10 MiB. */
const envelopeBytesMax = 8_192;
const smallBytesMax = 4_096;
const keyBytesMax = 4_096;
/** Of the message of an error. */
export const errorTextBytesMax = 2_048;
/** The maximum number of containers of a pool. */
const partsMax = 1_048_576;

const errorText = text(errorTextBytesMax);
const errorCode = text(40);

/** The call id: the owner executes a call once, however often it arrives. */
const callIdFields = {
  session: field(1, name, 'Session of the caller.'),
  generation: field(2, u32, 'Generation of the caller.'),
  counter: field(3, u53, 'Number of the call in this generation.'),
  lowestPending: field(
    4,
    u53,
    'Lowest number that the caller still waits for; the owner may drop dedup entries below it.',
  ),
};

const call = message({
  kind: 'call',
  tag: 112,
  carrier: 'stream',
  from: nodeRoles,
  bytesMax: valueBytesMax + envelopeBytesMax,
  doc: 'Runs a method at the owner of a container; a repeated call id returns the first result. Answered by callReply or callError.',
  fields: {
    ...callIdFields,
    pool: field(5, u32, 'Number of the pool.'),
    container: field(6, u32, 'Number of the container.'),
    version: field(7, u53, "Version of the caller's address table entry."),
    method: field(8, methodName, 'Method name.'),
    args: field(9, valueBytes, 'Arguments: an encoded list.'),
  },
  fastCodec: callFastCodec,
});

const callReply = message({
  kind: 'callReply',
  tag: 113,
  carrier: 'stream',
  from: nodeRoles,
  bytesMax: valueBytesMax + envelopeBytesMax,
  doc: 'Successful reply to call.',
  fields: {
    version: field(1, u53, "Version of the owner's address table entry."),
    value: field(
      2,
      optional(valueBytes),
      'Result of the method. Absent: the method returns a result stream, open one.',
    ),
  },
  fastCodec: callReplyFastCodec,
});

const callError = message({
  kind: 'callError',
  tag: 114,
  carrier: 'stream',
  from: nodeRoles,
  bytesMax: smallBytesMax,
  doc: 'The call failed, was not executed, or its outcome is unknown: the code tells which. Also ends a result stream that failed.',
  fields: {
    code: field(1, errorCode, 'Error code.'),
    message: field(2, errorText, 'Message for people.'),
    owner: field(3, optional(nodeId), 'With STALE_TABLE: the owner that the receiver knows.'),
    version: field(4, u53, 'Version of that address table entry; 0 if none is known.'),
    stateChanged: field(5, stateChanged, 'Whether the call had an effect.'),
  },
});

const route = record('route', {
  mode: field(
    1,
    enumOf('hash', 'number', 'id', 'range', 'broadcast', 'node', 'local', 'dynamic'),
    'How the containers are chosen.',
  ),
  key: field(2, optional(text(keyBytesMax)), 'Text to hash, or the name of a node.'),
  number: field(3, optional(u53), 'Number to hash, container number, or the first container of a range.'),
  count: field(4, optional(u53), 'Number of containers in a range.'),
});

export type WireRoute = ValueOf<typeof route>;

/** A call that leaves finding the owner to the receiver. */
const routedCallFields = {
  ...callIdFields,
  pool: field(5, name, 'Name of the pool.'),
  route: field(6, route, 'Which containers to call.'),
  retryTimeoutMs: field(7, optional(u32), 'How long the receiver retries while no owner is reachable.'),
  method: field(8, methodName, 'Method name.'),
};

const routeCall = message({
  kind: 'routeCall',
  tag: 115,
  carrier: 'stream',
  from: allRoles,
  bytesMax: valueBytesMax + envelopeBytesMax,
  doc: 'The receiver, any node, resolves the route, sends the call to the owners and returns the combined result. Answered by routeCallReply.',
  fields: { ...routedCallFields, args: field(9, valueBytes, 'Arguments: an encoded list.') },
});

const callPart = record('callPart', {
  container: field(1, u32, 'Number of the container.'),
  value: field(2, optional(valueBytes), 'Result of the method.'),
  code: field(3, optional(errorCode), 'Or the error code.'),
  message: field(4, optional(errorText), 'Message of the error.'),
  stateChanged: field(5, optional(stateChanged), 'Whether the call had an effect.'),
});

export type WireCallPart = ValueOf<typeof callPart>;

const routeCallReply = message({
  kind: 'routeCallReply',
  tag: 116,
  carrier: 'stream',
  from: nodeRoles,
  bytesMax: valueBytesMax + envelopeBytesMax,
  doc: 'Reply to routeCall: a value, parts, a result stream or an error.',
  fields: {
    value: field(1, optional(valueBytes), 'Result of the method, or the aggregate of several results.'),
    parts: field(2, optional(list(callPart, partsMax)), 'Result of each container, by container number.'),
    stream: field(3, optional(bool), 'The method returns a result stream: open one.'),
    code: field(4, optional(errorCode), 'Error code.'),
    message: field(5, optional(errorText), 'Message of the error.'),
    stateChanged: field(6, optional(stateChanged), 'Whether the call had an effect.'),
  },
});

const queryCallStatus = message({
  kind: 'queryCallStatus',
  tag: 117,
  carrier: 'stream',
  from: nodeRoles,
  bytesMax: smallBytesMax,
  doc: 'Asks the owner for the status of a call that has no reply yet. Answered by queryCallStatusReply.',
  fields: {
    session: callIdFields.session,
    generation: callIdFields.generation,
    counter: callIdFields.counter,
    pool: field(5, u32, 'Number of the pool.'),
    container: field(6, u32, 'Number of the container.'),
  },
});

const queryCallStatusReply = message({
  kind: 'queryCallStatusReply',
  tag: 118,
  carrier: 'stream',
  from: nodeRoles,
  bytesMax: smallBytesMax,
  doc: 'Reply to queryCallStatus.',
  fields: { status: field(1, enumOf('waiting', 'running', 'unknown'), 'Queued, running, or unknown to the owner.') },
});

const openResultStream = message({
  kind: 'openResultStream',
  tag: 119,
  carrier: 'stream',
  from: allRoles,
  bytesMax: keyBytesMax + smallBytesMax,
  doc: 'Opens the result stream of a generator method; see docs/guides/calls.md.',
  fields: {
    ...routedCallFields,
    timeoutMs: field(9, u32, 'Deadline of the whole stream.'),
    hops: field(
      10,
      u8,
      '0: the receiver finds the owner. Otherwise the sender takes the receiver for the owner, and it must not forward.',
    ),
  },
});

export const callMessages = [
  call,
  callReply,
  callError,
  routeCall,
  routeCallReply,
  queryCallStatus,
  queryCallStatusReply,
  openResultStream,
] as const;

export type CallMessage = MessageOf<typeof callMessages>;
export type CallMessageOf<K extends CallMessage['kind']> = Extract<CallMessage, { readonly kind: K }>;
