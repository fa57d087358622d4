/** Messages that create or delete a pool. Both are idempotent. */
import { field } from './codec/compound.ts';
import { message } from './codec/message.ts';
import { enumOf } from './codec/numbers.ts';
import { text } from './codec/strings.ts';

const specBytesMax = 100_000;

const managePool = message({
  kind: 'managePool',
  tag: 134,
  carrier: 'stream',
  from: ['client', 'gate', 'manager', 'worker'],
  bytesMax: specBytesMax + 256,
  doc: 'Creates or deletes a pool; idempotent. Answered by managePoolReply or an error.',
  fields: {
    action: field(1, enumOf('create', 'delete'), 'The action.'),
    spec: field(2, text(specBytesMax), 'JSON as in the HTTP API.'),
  },
});

const managePoolReply = message({
  kind: 'managePoolReply',
  tag: 135,
  carrier: 'stream',
  from: ['gate', 'manager', 'worker'],
  bytesMax: specBytesMax + 4_096,
  doc: 'Reply to managePool: the pool as created, or as it was before its deletion.',
  fields: { pool: field(1, text(specBytesMax + 2_048), 'JSON of the pool.') },
});

export const poolMessages = [managePool, managePoolReply] as const;
