/** How nodes that know only an address of each other become acquainted, and how they part. */
import { datagramBytesMax } from '../base/ports.ts';
import { field, list } from './compound.ts';
import { message } from './message.ts';
import { nodeEntry } from './node-entry.ts';
import { u64 } from './numbers.ts';
import { text } from './strings.ts';

const members = ['gate', 'manager', 'worker'] as const;

/** As many as a datagram holds with ordinary names; a sender with very long ones must tell fewer. */
const knownInDatagramMax = 6;
const knownMax = 1_000;
const introductionBytesMax = 500_000;

export const hello = message({
  kind: 'hello',
  tag: 1,
  carrier: 'datagram',
  from: members,
  bytesMax: datagramBytesMax,
  doc: 'I am here, and these I know. Answered by helloAck.',
  fields: {
    messageId: field(1, u64, 'Named again in the answer.'),
    known: field(2, list(nodeEntry, knownInDatagramMax), 'Some of the members that the sender knows.'),
  },
});

export const helloAck = message({
  kind: 'helloAck',
  tag: 2,
  carrier: 'datagram',
  from: members,
  bytesMax: datagramBytesMax,
  doc: 'I heard your hello, and these I know.',
  fields: {
    answers: field(1, u64, 'The messageId of the hello.'),
    known: field(2, list(nodeEntry, knownInDatagramMax), 'Some of the members that the sender knows.'),
  },
});

export const introduce = message({
  kind: 'introduce',
  tag: 3,
  carrier: 'stream',
  from: members,
  bytesMax: introductionBytesMax,
  doc: 'The first request to a node: who I am and whom I know. Answered by introduced.',
  fields: {
    self: field(1, nodeEntry, 'The sender.'),
    known: field(2, list(nodeEntry, knownMax), 'All members that the sender knows.'),
  },
});

export const introduced = message({
  kind: 'introduced',
  tag: 4,
  carrier: 'stream',
  from: members,
  bytesMax: introductionBytesMax,
  doc: 'The answer to introduce.',
  fields: {
    self: field(1, nodeEntry, 'The one who answers.'),
    known: field(2, list(nodeEntry, knownMax), 'All members that it knows.'),
  },
});

export const goodbye = message({
  kind: 'goodbye',
  tag: 5,
  carrier: 'both',
  from: members,
  bytesMax: 512,
  doc: 'I leave on purpose; do not look for me.',
  fields: { reason: field(1, text(200), 'For people.') },
});
