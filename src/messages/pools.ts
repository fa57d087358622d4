/** Messages that create or delete a pool. Idempotent: sent twice it is done once. */
import { field } from './codec/compound.ts';
import { message } from './codec/message.ts';
import { enumOf } from './codec/numbers.ts';
import { text } from './codec/strings.ts';

const wordsBytesMax = 100_000;

const wantPool = message({
  kind: 'wantPool',
  tag: 134,
  carrier: 'stream',
  from: ['client', 'gate', 'manager', 'worker'],
  bytesMax: wordsBytesMax + 256,
  doc: 'Let there be a pool, or let it go. Asked twice it is done once. Answered by poolTold or an error.',
  fields: {
    action: field(1, enumOf('create', 'delete'), 'Which of the two.'),
    spec: field(2, text(wordsBytesMax), 'The same JSON as over HTTP.'),
  },
});

const poolTold = message({
  kind: 'poolTold',
  tag: 135,
  carrier: 'stream',
  from: ['gate', 'manager', 'worker'],
  bytesMax: wordsBytesMax + 4_096,
  doc: 'The answer to wantPool: what the pool is, or was.',
  fields: { pool: field(1, text(wordsBytesMax + 2_048), 'JSON.') },
});

export const poolMessages = [wantPool, poolTold] as const;
