/** How a worker renews the lease under which it serves containers. A manager that does not lead redirects. */
import type { Role } from '../base/ports.ts';
import { field } from './codec/compound.ts';
import { message } from './codec/message.ts';
import { u32, u53 } from './codec/numbers.ts';
import { bytes } from './codec/strings.ts';

const noticeBytesMax = 128;
const members = ['gate', 'manager', 'worker'] as const satisfies readonly Role[];

const renewServing = message({
  kind: 'renewServing',
  tag: 130,
  carrier: 'stream',
  from: members,
  bytesMax: 64,
  doc: 'May I go on serving my containers? Answered by servingGranted, by servingElsewhere, or an error: FENCED when a later life of the asking node is known, NOT_LEADER when the one asked is no manager, PRECONDITION when it has to see first what was decided about it.',
  fields: {
    generation: field(1, u32, 'The life of the node that asks.'),
    revision: field(2, u53, 'Of the registry: how far its address table has got.'),
  },
});

const servingGranted = message({
  kind: 'servingGranted',
  tag: 131,
  carrier: 'stream',
  from: ['gate', 'manager'],
  bytesMax: 64,
  doc: 'The answer to renewServing: yes, for so long, counted by the asking node from when it asked.',
  fields: {
    leaseMs: field(1, u32, 'The full time. The node stops by itself well before its end, the leader waits longer.'),
    term: field(2, u32, 'Of the leader that grants it.'),
    takenRevision: field(
      3,
      u53,
      'Something was given to others at this revision of the registry: until its address table has got there, the node serves nothing. 0 if nothing was.',
    ),
  },
});

const servingElsewhere = message({
  kind: 'servingElsewhere',
  tag: 132,
  carrier: 'stream',
  from: ['gate', 'manager'],
  bytesMax: 256,
  doc: 'The answer to renewServing of a manager that does not lead: ask whoever does.',
  fields: { leaderHint: field(1, bytes(noticeBytesMax), 'Who leads, as it tells everybody with its embedded state.') },
});

export const servingLeaseMessages = [renewServing, servingGranted, servingElsewhere] as const;
