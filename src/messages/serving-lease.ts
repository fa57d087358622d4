/** How a worker renews its serving lease, without which it serves no container. Only the leader grants it. */
import type { Role } from '../base/ports.ts';
import { field, optional } from './codec/compound.ts';
import { message } from './codec/message.ts';
import { u32, u53 } from './codec/numbers.ts';
import { bytes } from './codec/strings.ts';
import { epoch } from './registry.ts';

const hintBytesMax = 128;
const nodeRoles = ['gate', 'manager', 'worker'] as const satisfies readonly Role[];

const renewServingLease = message({
  kind: 'renewServingLease',
  tag: 130,
  carrier: 'stream',
  from: nodeRoles,
  bytesMax: 128,
  doc: 'Renews the serving lease of the sender. Answered by servingLeaseGranted, servingLeaseRedirect or an error: FENCED if a later generation of the sender is registered or its table is of another group, NOT_LEADER if the receiver is not a manager, PRECONDITION if the sender must first apply registry changes about itself.',
  fields: {
    generation: field(1, u32, 'Generation of the sender.'),
    revision: field(2, u53, 'Registry revision of its address table.'),
    epoch: field(3, optional(epoch), 'Epoch of that revision; absent before the table is loaded.'),
  },
});

const servingLeaseGranted = message({
  kind: 'servingLeaseGranted',
  tag: 131,
  carrier: 'stream',
  from: ['gate', 'manager'],
  bytesMax: 64,
  doc: 'Grants a serving lease, which the worker counts from the moment of its request.',
  fields: {
    leaseMs: field(
      1,
      u32,
      'Full duration. The worker stops serving well before its end; the leader reassigns only after it.',
    ),
    term: field(2, u32, 'Term of the granting leader.'),
    revokedRevision: field(
      3,
      u53,
      'Registry revision at which containers of the worker were reassigned: it serves nothing until its address table has reached it. 0 if none was.',
    ),
  },
});

const servingLeaseRedirect = message({
  kind: 'servingLeaseRedirect',
  tag: 132,
  carrier: 'stream',
  from: ['gate', 'manager'],
  bytesMax: 256,
  doc: 'Reply of a manager that is not the leader: send the request to the leader.',
  fields: { leaderHint: field(1, bytes(hintBytesMax), 'The leader that the manager knows: an encoded leaderHint.') },
});

export const servingLeaseMessages = [renewServingLease, servingLeaseGranted, servingLeaseRedirect] as const;
