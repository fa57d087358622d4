/** All decoders that read bytes or text from outside. */
import fc from 'fast-check';
import { isDeepStrictEqual } from 'node:util';
import { catalogue } from '../../../src/messages/catalogue.ts';
import { createCodec } from '../../../src/messages/codec/codec.ts';
import { parseTraceMessage, formatTraceMessage } from '../../../src/messages/trace-format.ts';
import { messageHeaderBytes } from '../../../src/messages/codec/message.ts';
import { rejectionReason } from '../../../src/messages/codec/decode-error.ts';
import { messageArbitrary } from './arbitraries.ts';
import type { FuzzTarget } from './fuzzer.ts';
import { allFieldTypes } from './all-field-types.ts';
import { httpFuzzTarget } from './http-target.ts';
import { traceMessageArbitrary } from './trace-arbitraries.ts';
import { transportFuzzTargets } from './transport-targets.ts';

const samplesPerMessage = 24;
const sampleSeed = 1;

const declarations = [...catalogue, allFieldTypes] as const;
const codec = createCodec(declarations);

const messages: FuzzTarget = {
  name: 'messages',
  headerBytes: messageHeaderBytes,
  corpus: declarations.flatMap((declaration) =>
    fc
      .sample(messageArbitrary(declaration), { seed: sampleSeed, numRuns: samplesPerMessage })
      .map((value) => codec.encode(value as Parameters<typeof codec.encode>[0])),
  ),
  reasonOf: rejectionReason,
  attempt: (input) => {
    const value = codec.decode(input);
    if (!isDeepStrictEqual(codec.decode(codec.encode(value)), value))
      throw new Error('the value changes when it is encoded again');
  },
};

const grammar: FuzzTarget = {
  name: 'grammar',
  headerBytes: 4,
  corpus: fc
    .sample(traceMessageArbitrary, { seed: sampleSeed, numRuns: 200 })
    .map((message) => Uint8Array.from(formatTraceMessage(message), (letter) => letter.charCodeAt(0))),
  reasonOf: rejectionReason,
  attempt: (input) => {
    const text = String.fromCharCode(...input);
    if (formatTraceMessage(parseTraceMessage(text)) !== text)
      throw new Error('the text changes when it is formatted again');
  },
};

export const fuzzTargets: readonly FuzzTarget[] = [messages, grammar, httpFuzzTarget, ...transportFuzzTargets];
