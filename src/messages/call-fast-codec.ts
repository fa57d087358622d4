/**
 * Hand-written codec of the two most frequent messages. Same bytes and same errors as the general codec, which reads what
 * this one does not expect.
 */
import type { FastCodec } from './codec/message.ts';
import { u32, u53 } from './codec/numbers.ts';
import type { WireReader } from './codec/reader.ts';
import { bytes, name, shortInternedText } from './codec/strings.ts';
import { valueBytesMax } from './codec/value.ts';

export const methodName = shortInternedText(255);
export const valueBytes = bytes(valueBytesMax);

// As declared in calls.ts, whose types cannot be imported here: they would refer to themselves.
type Call = {
  readonly kind: 'call';
  readonly session: string;
  readonly generation: number;
  readonly counter: number;
  readonly lowestPending: number;
  readonly pool: number;
  readonly container: number;
  readonly version: number;
  readonly method: string;
  readonly args: Uint8Array;
};
type CallReply = { readonly kind: 'callReply'; readonly version: number; readonly value: Uint8Array | undefined };

/** The key of each field: its number and wire type. */
const keys = {
  session: 6,
  generation: 8,
  counter: 12,
  lowestPending: 16,
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
    writer.byte(keys.lowestPending);
    u53.write(writer, message.lowestPending, 'lowestPending');
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
    if (!skipKey(reader, keys.lowestPending)) return undefined;
    const lowestPending = u53.read(reader, 'lowestPending');
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
    return { kind: 'call', session, generation, counter, lowestPending, pool, container, version, method, args };
  },
};

const replyKeys = { version: 4, value: 10 } as const;

export const callReplyFastCodec: FastCodec<CallReply> = {
  write: (writer, { version, value }) => {
    writer.byte(replyKeys.version);
    u53.write(writer, version, 'version');
    if (value === undefined) return;
    writer.byte(replyKeys.value);
    valueBytes.write(writer, value, 'value');
  },
  read: (reader) => {
    if (!skipKey(reader, replyKeys.version)) return undefined;
    const version = u53.read(reader, 'version');
    if (!skipKey(reader, replyKeys.value)) return undefined;
    const value = valueBytes.read(reader, 'value');
    return reader.position === reader.end ? { kind: 'callReply', version, value } : undefined;
  },
};

/** Skips the key if it is the expected one. After the last field there is none. */
function skipKey(reader: WireReader, key: number): boolean {
  if (reader.bytes[reader.position] !== key) return false;
  reader.position += 1;
  return true;
}
