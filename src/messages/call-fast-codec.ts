/**
 * Hand-written codec of the two most frequent messages. Same bytes and same refusals as the general codec, which reads
 * whatever differs.
 */
import type { FastCodec } from './codec/message.ts';
import { u32, u53 } from './codec/numbers.ts';
import type { WireReader } from './codec/reader.ts';
import { name, internedBytes, shortInternedText } from './codec/strings.ts';
import { valueBytesMax } from './codec/value.ts';

export const methodName = shortInternedText(255);
export const valueBytes = internedBytes(valueBytesMax);

// As declared in calls.ts, which cannot be asked for its types here: it would be asked about itself.
type Call = {
  readonly kind: 'call';
  readonly session: string;
  readonly generation: number;
  readonly counter: number;
  readonly lowest: number;
  readonly pool: number;
  readonly container: number;
  readonly version: number;
  readonly method: string;
  readonly args: Uint8Array;
};
type Called = { readonly kind: 'called'; readonly version: number; readonly value: Uint8Array | undefined };

/** What stands before each field: its number and its wire type. */
const keys = {
  session: 6,
  generation: 8,
  counter: 12,
  lowest: 16,
  pool: 20,
  container: 24,
  version: 28,
  method: 34,
  args: 38,
} as const;

export const callFastCodec: FastCodec<Call> = {
  write: (writer, message) => {
    writer.byte(keys.session);
    name.write(writer, message.session, 'session');
    writer.byte(keys.generation);
    u32.write(writer, message.generation, 'generation');
    writer.byte(keys.counter);
    u53.write(writer, message.counter, 'counter');
    writer.byte(keys.lowest);
    u53.write(writer, message.lowest, 'lowest');
    writer.byte(keys.pool);
    u32.write(writer, message.pool, 'pool');
    writer.byte(keys.container);
    u32.write(writer, message.container, 'container');
    writer.byte(keys.version);
    u53.write(writer, message.version, 'version');
    writer.byte(keys.method);
    methodName.write(writer, message.method, 'method');
    writer.byte(keys.args);
    valueBytes.write(writer, message.args, 'args');
  },
  read: (reader) => {
    if (!skipKey(reader, keys.session)) return undefined;
    const session = name.read(reader, 'session');
    if (!skipKey(reader, keys.generation)) return undefined;
    const generation = u32.read(reader, 'generation');
    if (!skipKey(reader, keys.counter)) return undefined;
    const counter = u53.read(reader, 'counter');
    if (!skipKey(reader, keys.lowest)) return undefined;
    const lowest = u53.read(reader, 'lowest');
    if (!skipKey(reader, keys.pool)) return undefined;
    const pool = u32.read(reader, 'pool');
    if (!skipKey(reader, keys.container)) return undefined;
    const container = u32.read(reader, 'container');
    if (!skipKey(reader, keys.version)) return undefined;
    const version = u53.read(reader, 'version');
    if (!skipKey(reader, keys.method)) return undefined;
    const method = methodName.read(reader, 'method');
    if (!skipKey(reader, keys.args)) return undefined;
    const args = valueBytes.read(reader, 'args');
    if (reader.position !== reader.end) return undefined;
    return { kind: 'call', session, generation, counter, lowest, pool, container, version, method, args };
  },
};

const calledKeys = { version: 4, value: 10 } as const;

export const callReplyFastCodec: FastCodec<Called> = {
  write: (writer, { version, value }) => {
    writer.byte(calledKeys.version);
    u53.write(writer, version, 'version');
    if (value === undefined) return;
    writer.byte(calledKeys.value);
    valueBytes.write(writer, value, 'value');
  },
  read: (reader) => {
    if (!skipKey(reader, calledKeys.version)) return undefined;
    const version = u53.read(reader, 'version');
    if (!skipKey(reader, calledKeys.value)) return undefined;
    const value = valueBytes.read(reader, 'value');
    return reader.position === reader.end ? { kind: 'called', version, value } : undefined;
  },
};

/** Passes over the key if it is that one; behind the last field there is none. */
function skipKey(reader: WireReader, key: number): boolean {
  if (reader.bytes[reader.position] !== key) return false;
  reader.position += 1;
  return true;
}
