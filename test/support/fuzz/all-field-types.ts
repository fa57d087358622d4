/** A message with every type of field, so that tests and fuzzing reach types that no real message uses yet. */
import { field, list, map, optional, record } from '../../../src/messages/codec/compound.ts';
import { message } from '../../../src/messages/codec/message.ts';
import {
  bool,
  f64,
  f64OrNotFinite,
  i32,
  enumOf,
  roles,
  u16,
  u32,
  u53,
  u64,
  u8,
} from '../../../src/messages/codec/numbers.ts';
import { bytes, name, nodeId, text } from '../../../src/messages/codec/strings.ts';

const inner = record('inner', {
  count: field(1, u8, 'A number.'),
  note: field(3, optional(text(100)), 'A remark.'),
});

export const allFieldTypes = message({
  kind: 'everyKind',
  tag: 65_535,
  carrier: 'stream',
  from: ['worker'],
  bytesMax: 65_536,
  doc: 'Only for tests.',
  fields: {
    bool: field(1, bool, '.'),
    u8: field(2, u8, '.'),
    u16: field(3, u16, '.'),
    u32: field(4, u32, '.'),
    u53: field(5, u53, '.'),
    u64: field(6, u64, '.'),
    i32: field(7, i32, '.'),
    f64: field(8, f64, '.'),
    anyFloat: field(9, f64OrNotFinite, '.'),
    text: field(10, text(1_000), '.'),
    name: field(11, name, '.'),
    bytes: field(12, bytes(1_000), '.'),
    nodeId: field(13, nodeId, '.'),
    roles: field(14, roles, '.'),
    colour: field(15, enumOf('red', 'green', 'blue'), '.'),
    numbers: field(16, list(i32, 20), '.'),
    lists: field(17, list(list(u53, 5), 5), '.'),
    inner: field(18, inner, '.'),
    inners: field(20, list(inner, 5), '.'),
    labels: field(21, map(text(100), inner, 5), '.'),
    maybeText: field(31, optional(text(100)), '.'),
    maybeFloat: field(32, optional(f64), '.'),
    maybeInner: field(4_095, optional(inner), '.'),
  },
});
