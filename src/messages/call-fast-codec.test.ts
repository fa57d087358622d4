import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { Random } from '../base/random.ts';
import { catalogue } from './catalogue.ts';
import { fieldsCodec } from './codec/compound.ts';
import { messageHeaderBytes } from './codec/message.ts';
import { WireReader } from './codec/reader.ts';
import { rejectionReason } from './codec/decode-error.ts';
import { WireWriter } from './codec/writer.ts';

type TestedCodec = { write(writer: WireWriter, value: object): void; read(reader: WireReader): unknown };

function codecsOf(kind: 'call' | 'callReply'): { readonly fast: TestedCodec; readonly general: TestedCodec } {
  const declaration = catalogue.find((one) => one.kind === kind);
  assert.ok(declaration !== undefined);
  return { fast: declaration.codec, general: fieldsCodec<object>(declaration.fields, kind) };
}

function written(codec: TestedCodec, value: object): Uint8Array {
  const writer = new WireWriter();
  writer.start(1_000_000, 1, 1);
  codec.write(writer, value);
  return writer.finish();
}

/** The decoded value, or the reason of the decode error. */
function read(codec: TestedCodec, bytes: Uint8Array): unknown {
  try {
    return codec.read(new WireReader(bytes, messageHeaderBytes));
  } catch (error) {
    return { refused: rejectionReason(error) ?? error };
  }
}

function refusal(codec: TestedCodec, value: object): string | undefined {
  try {
    written(codec, value);
    return undefined;
  } catch (error) {
    return String(error);
  }
}

const numbers = [0, 1, 127, 128, 300, 2 ** 21, 2 ** 31, 2 ** 32 - 1];
const large = [...numbers, 2 ** 32, 2 ** 42, Number.MAX_SAFE_INTEGER];
const words = ['noop', 'a', '', 'addAll', 'm\u00e9thode', 'x'.repeat(63), 'x'.repeat(64), 'y'.repeat(255), '__proto__'];
const sessions = ['a', `${'07'.repeat(16)}.1.drivers-0`, 'x'.repeat(63), '0.b_c-d', 'a.b_c-d'];

function randomCall(random: Random): object {
  const args = new Uint8Array(random.below(200)).fill(random.below(256));
  const small = (): number => random.pick(numbers);
  return {
    ...{ kind: 'call', session: random.pick(sessions), generation: small(), counter: random.pick(large) },
    ...{ lowestPending: random.pick(large), pool: small(), container: small(), version: random.pick(large) },
    ...{ method: random.pick(words), args },
  };
}

function randomCalled(random: Random): object {
  const value = random.below(5) === 0 ? undefined : new Uint8Array(random.below(200)).fill(random.below(256));
  return { kind: 'callReply', version: random.pick(large), value };
}

for (const [kind, make] of [
  ['call', randomCall],
  ['callReply', randomCalled],
] as const) {
  const { fast, general } = codecsOf(kind);
  describe(`the fast codec of ${kind}`, () => {
    test('writes and reads the same as the general codec', () => {
      const random = new Random('7');
      for (let i = 0; i < 500; i++) {
        const value = make(random);
        const bytes = written(fast, value);
        assert.deepEqual(bytes, written(general, value));
        assert.deepEqual(read(fast, bytes), value);
        assert.deepEqual(read(general, bytes), value);
      }
    });

    test('rejects truncated and changed bytes for the same reasons as the general codec', () => {
      const random = new Random('11');
      for (let i = 0; i < 60; i++) {
        const bytes = written(fast, make(random));
        for (let length = messageHeaderBytes; length < Math.min(bytes.length, 150); length++) {
          const cut = bytes.slice(0, length);
          assert.deepEqual(read(fast, cut), read(general, cut));
          const changed = bytes.slice();
          changed[length] = random.below(256);
          assert.deepEqual(read(fast, changed), read(general, changed));
        }
        const longer = Uint8Array.from([...bytes, 4 * 40, 1, 9]);
        assert.deepEqual(read(fast, longer), read(general, longer));
      }
    });

    test('refuses to write the values that the general codec refuses', () => {
      const value = make(new Random('3'));
      for (const name of Object.keys(value)) {
        for (const bad of [-1, 1.5, 'No Name', '\ud800', {}, null, 'z'.repeat(300)]) {
          if (name === 'kind') continue;
          const changed = { ...value, [name]: bad };
          assert.equal(refusal(fast, changed), refusal(general, changed), `${name}: ${JSON.stringify(bad)}`);
        }
      }
    });
  });
}
