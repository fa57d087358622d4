/** Values of any declared message, derived from its declaration. */
import fc from 'fast-check';
import { unreachable } from '../../../src/base/assert.ts';
import { nodeIdFrom } from '../../../src/base/ids.ts';
import type { FieldSchema, FieldTypeSchema } from '../../../src/messages/codec/field-type.ts';
import type { MessageDeclaration } from '../../../src/messages/codec/message.ts';
import { roleNames } from '../../../src/messages/codec/numbers.ts';

/** Lists stay short, so that every generated message is below its size limit. */
const itemsMax = 4;

const hostileTexts = ['', '__proto__', 'constructor', 'a\nb', '\u0000', '\ufeffbom', '\u{1f600}', '${7*7}', '<b>'];
const hostileNames = ['constructor', 'prototype', 'a..b_c', '0', 'a'.repeat(63)];

const letters = Array.from('abcdefghijklmnopqrstuvwxyz0123456789');
const anyName = fc
  .tuple(fc.constantFrom(...letters), fc.string({ unit: fc.constantFrom(...letters, '.', '_', '-'), maxLength: 62 }))
  .map(([first, rest]) => first + rest);

export function messageArbitrary(declaration: MessageDeclaration): fc.Arbitrary<unknown> {
  const { kind, codec } = declaration;
  return anyRecord(codec.schemas).map((fields) => Object.assign(fields, { kind }));
}

function anyRecord(fields: readonly FieldSchema[]): fc.Arbitrary<Record<string, unknown>> {
  const model: Record<string, fc.Arbitrary<unknown>> = {};
  for (const { name, optional, schema } of fields) {
    model[name] = optional ? fc.option(anyValue(schema), { nil: undefined }) : anyValue(schema);
  }
  return fc.record(model, { noNullPrototype: true });
}

function anyValue(shape: FieldTypeSchema): fc.Arbitrary<unknown> {
  switch (shape.type) {
    case 'bool':
      return fc.boolean();
    case 'u64':
      return fc.bigInt({ min: 0n, max: 2n ** 64n - 1n });
    case 'name':
      return fc.oneof(anyName, fc.constantFrom(...hostileNames));
    case 'nodeId':
      return fc.uint8Array({ minLength: 16, maxLength: 16 }).map(nodeIdFrom);
    case 'roles':
      return fc.subarray([...roleNames]);
    case 'integer':
      return fc.oneof(
        fc.integer({ min: shape.min, max: shape.max }),
        fc.constantFrom(shape.min, 1, 127, 128, shape.max),
      );
    case 'f64':
      return fc.double({ noNaN: shape.finite, noDefaultInfinity: shape.finite });
    case 'enum':
      return fc.constantFrom(...shape.values);
    case 'text':
      return anyText(shape.bytesMax);
    case 'bytes':
      return fc.uint8Array({ maxLength: Math.min(shape.bytesMax, 300) });
    case 'list':
      return fc.array(anyValue(shape.item), { maxLength: Math.min(shape.itemsMax, itemsMax) });
    case 'map':
      return fc
        .array(fc.tuple(anyValue(shape.key), anyValue(shape.value)), { maxLength: Math.min(shape.itemsMax, itemsMax) })
        .map((entries) => new Map(entries));
    case 'record':
      return anyRecord(shape.fields);
    default:
      return unreachable(shape);
  }
}

/** Any code point but a lone surrogate, which no text may hold. */
const anyCharacter = fc
  .integer({ min: 0, max: 0x10_ffff - 0x800 })
  .map((number) => String.fromCodePoint(number < 0xd800 ? number : number + 0x800));

function anyText(bytesMax: number): fc.Arbitrary<string> {
  const lengthMax = Math.min(Math.floor(bytesMax / 4), 24);
  const hostile = hostileTexts.filter((text) => text.length * 3 <= bytesMax);
  return fc.oneof(
    fc.string({ unit: anyCharacter, maxLength: lengthMax }),
    fc.string({ maxLength: lengthMax }),
    fc.constantFrom(...hostile),
  );
}
