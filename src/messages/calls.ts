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

const members = ['gate', 'manager', 'worker'] as const satisfies readonly Role[];
const anybody = [...members, 'client'] as const satisfies readonly Role[];

/** What is around a value. Together they stay below what the transport takes as one message: 10 MiB. */
const envelopeBytesMax = 8_192;
const smallBytesMax = 4_096;
const keyBytesMax = 4_096;
/** Of the sentence of an error. */
export const errorTextBytesMax = 2_048;
/** As many as a pool may have containers. */
const partsMax = 1_048_576;

const errorText = text(errorTextBytesMax);
const errorCode = text(40);

/** Who calls, and for the how-manyth time: run once, however often it arrives. */
const callIdFields = {
  session: field(1, name, 'Who calls,'),
  generation: field(2, u32, 'in which of its lives,'),
  counter: field(3, u53, 'and the number of the call in that life.'),
  lowest: field(4, u53, 'The lowest number to which it still waits for an answer.'),
};

const call = message({
  kind: 'call',
  tag: 112,
  carrier: 'stream',
  from: members,
  bytesMax: valueBytesMax + envelopeBytesMax,
  doc: 'Run this method, or give the answer of the first time. Answered by called or callRefused.',
  fields: {
    ...callIdFields,
    pool: field(5, u32, 'The number of the pool.'),
    container: field(6, u32, 'Which of its containers.'),
    version: field(7, u53, "Of the caller's entry of the address table."),
    method: field(8, methodName, 'Which method.'),
    args: field(9, valueBytes, 'A list, as a value.'),
  },
  spelled: callFastCodec,
});

const called = message({
  kind: 'called',
  tag: 113,
  carrier: 'stream',
  from: members,
  bytesMax: valueBytesMax + envelopeBytesMax,
  doc: 'The answer to call.',
  fields: {
    version: field(1, u53, "Of the owner's entry of the address table."),
    value: field(2, optional(valueBytes), 'What the method returned. Absent: it gives a flow, open one.'),
  },
  spelled: callReplyFastCodec,
});

const callRefused = message({
  kind: 'callRefused',
  tag: 114,
  carrier: 'stream',
  from: members,
  bytesMax: smallBytesMax,
  doc: 'It failed, or was not run, or nobody can say: the code tells which. Also the end of a flow that failed.',
  fields: {
    code: field(1, errorCode, 'An error code.'),
    message: field(2, errorText, 'For people.'),
    owner: field(3, optional(nodeId), 'With STALE_TABLE: who owns it, as far as the one who was asked knows,'),
    version: field(4, u53, 'and the version of that entry; 0 when nothing is known.'),
    stateChanged: field(5, stateChanged, 'Whether it had an effect.'),
  },
});

const route = record('route', {
  mode: field(1, enumOf('hash', 'number', 'id', 'range', 'broadcast', 'node', 'local', 'dynamic'), 'How it is found.'),
  key: field(2, optional(text(keyBytesMax)), 'The text of a hash, or the name of a node.'),
  number: field(3, optional(u53), 'Of a hash that is a number, the container of an id, the first of a range.'),
  count: field(4, optional(u53), 'How many containers a range has.'),
});

export type WireRoute = ValueOf<typeof route>;

/** A call as somebody wants it made who leaves the finding to the receiver. */
const routedCallFields = {
  ...callIdFields,
  pool: field(5, name, 'The name of the pool.'),
  route: field(6, route, 'Which containers.'),
  retryTimeoutMs: field(7, optional(u32), 'How long an owner that cannot be reached is looked for.'),
  method: field(8, methodName, 'Which method.'),
};

const wantCall = message({
  kind: 'wantCall',
  tag: 115,
  carrier: 'stream',
  from: anybody,
  bytesMax: valueBytesMax + envelopeBytesMax,
  doc: 'Find the owners, have it run there, and gather. Any node does; answered by wantedCall.',
  fields: { ...routedCallFields, args: field(9, valueBytes, 'A list, as a value.') },
});

const callPart = record('callPart', {
  container: field(1, u32, 'Which container.'),
  value: field(2, optional(valueBytes), 'What its method returned,'),
  code: field(3, optional(errorCode), 'or the code of the error'),
  message: field(4, optional(errorText), 'and its sentence,'),
  stateChanged: field(5, optional(stateChanged), 'and whether it had an effect.'),
});

export type WireCallPart = ValueOf<typeof callPart>;

const wantedCall = message({
  kind: 'wantedCall',
  tag: 116,
  carrier: 'stream',
  from: members,
  bytesMax: valueBytesMax + envelopeBytesMax,
  doc: 'The answer to wantCall: one of its fields.',
  fields: {
    value: field(1, optional(valueBytes), 'What the method returned, or what was made of what all returned.'),
    parts: field(2, optional(list(callPart, partsMax)), 'What each container returned, in the order of their numbers.'),
    stream: field(3, optional(bool), 'It gives a flow: open one.'),
    code: field(4, optional(errorCode), 'Why it failed: an error code,'),
    message: field(5, optional(errorText), 'a sentence,'),
    stateChanged: field(6, optional(stateChanged), 'and whether it had an effect.'),
  },
});

const askCall = message({
  kind: 'askCall',
  tag: 117,
  carrier: 'stream',
  from: members,
  bytesMax: smallBytesMax,
  doc: 'What has become of a call to which no answer came for a while? Answered by callStanding.',
  fields: {
    session: callIdFields.session,
    generation: callIdFields.generation,
    counter: callIdFields.counter,
    pool: field(5, u32, 'The number of the pool.'),
    container: field(6, u32, 'Which of its containers.'),
  },
});

const callStanding = message({
  kind: 'callStanding',
  tag: 118,
  carrier: 'stream',
  from: members,
  bytesMax: smallBytesMax,
  doc: 'The answer to askCall.',
  fields: { status: field(1, enumOf('waiting', 'running', 'unknown'), 'In the inbox, at work, or not there.') },
});

const openFlow = message({
  kind: 'openFlow',
  tag: 119,
  carrier: 'stream',
  from: anybody,
  bytesMax: keyBytesMax + smallBytesMax,
  doc: 'The beginning of a stream that carries the items of a method which gives a flow; see docs/guides/calls.md.',
  fields: {
    ...routedCallFields,
    timeoutMs: field(9, u32, 'How long the whole flow may take.'),
    hops: field(
      10,
      u8,
      '0: find the owner. Otherwise the receiver is held to be the owner, and passes it on to nobody.',
    ),
  },
});

export const callMessages = [call, called, callRefused, wantCall, wantedCall, askCall, callStanding, openFlow] as const;

export type CallMessage = MessageOf<typeof callMessages>;
export type CallMessageOf<K extends CallMessage['kind']> = Extract<CallMessage, { readonly kind: K }>;
