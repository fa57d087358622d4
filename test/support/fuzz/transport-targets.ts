/**
 * Fuzz targets: the decoders of the transport. An unauthenticated peer reaches `hello`, `frames` and `datagrams`; only
 * a member reaches `greeting`, `sessions` and `segments`.
 */
import { BoundedLru } from '../../../src/base/collections/bounded-lru.ts';
import { nodeIdFrom } from '../../../src/base/ids.ts';
import type { Identity, StreamService } from '../../../src/base/ports.ts';
import type { Compression } from '../../../src/io/transport/mux/compression.ts';
import { TransportCounters } from '../../../src/io/transport/shared/transport-counters.ts';
import { openDatagram, readDatagramHeader, writeDatagram } from '../../../src/io/transport/datagram/datagram-format.ts';
import { SealedFrameReader, openFrame, sealFrame } from '../../../src/io/transport/mux/sealed-frame.ts';
import {
  helloBytes,
  makeGreeting,
  makeHello,
  readGreeting,
  readHello,
} from '../../../src/io/transport/crypto/handshake.ts';
import {
  clusterTag,
  deriveKey,
  makeKeyRing,
  transportVersion,
  recipientTag,
} from '../../../src/io/transport/crypto/keys.ts';
import { defaultTransportLimits } from '../../../src/io/transport/shared/transport-limits.ts';
import type { MuxContext } from '../../../src/io/transport/mux/mux-context.ts';
import { Mux } from '../../../src/io/transport/mux/mux.ts';
import { readSessionAnnouncement } from '../../../src/io/transport/datagram/outbound-sessions.ts';
import { ByteBudget } from '../../../src/io/transport/mux/reassembly.ts';
import { RejectedError, rejectionReasonOf } from '../../../src/io/transport/shared/rejections.ts';
import { Opener, Sealer } from '../../../src/io/transport/crypto/seal.ts';
import { segmentKindMax, segmentKinds, writeSegment, writeU32 } from '../../../src/io/transport/mux/segment.ts';
import { TokenBucket } from '../../../src/io/transport/shared/token-bucket.ts';
import type { FuzzTarget } from './fuzzer.ts';

const cluster = 'fuzz';
const ring = makeKeyRing(cluster, { current: 'x9K!mPq2$vRt7wLz4#nB', previous: [] });
const salt = new Uint8Array(32).fill(7);
const key = deriveKey(ring.current.key, salt, 'fuzz');
const aad = new Uint8Array(20).fill(3);
const reasonOf = rejectionReasonOf;

const peer: Identity = {
  id: nodeIdFrom(new Uint8Array(16).fill(1)),
  name: 'n1',
  host: '10.0.0.1',
  port: 8_000,
  generation: 3,
  roles: ['manager', 'worker'],
  dc: 'east',
};

/** Every change of sealed bytes must be refused. */
function assertGenuine(accepted: Uint8Array, { corpus }: FuzzTarget): void {
  if (!corpus.some((valid) => Buffer.compare(valid, accepted) === 0)) throw new Error('a forgery was accepted');
}

const hello: FuzzTarget = {
  name: 'hello',
  headerBytes: 13,
  corpus: [makeHello(ring.current, cluster, salt)],
  reasonOf,
  attempt: (input) => {
    // The acceptor reads exactly this many bytes.
    const whole = new Uint8Array(helloBytes);
    whole.set(input.subarray(0, helloBytes));
    readHello(whole, ring, cluster, new BoundedLru(4));
    assertGenuine(whole, hello);
  },
};

const greeting: FuzzTarget = {
  name: 'greeting',
  headerBytes: 16,
  corpus: [
    makeGreeting({ identity: peer, sessions: new Uint8Array(0) }),
    makeGreeting({ identity: { ...peer, host: 'h'.repeat(255), name: '\u20ac' }, sessions: new Uint8Array(57) }),
  ],
  reasonOf,
  attempt: (input) => void readGreeting(input),
};

const sessions: FuzzTarget = {
  name: 'sessions',
  headerBytes: 1,
  corpus: [0, 1, 2].map((count) => Uint8Array.from([count, ...new Uint8Array(28 * count).fill(1)])),
  reasonOf,
  attempt: (input) => void readSessionAnnouncement(input),
};

/** Segments of every kind, alone and in a row. */
function segmentFrames(): Uint8Array[] {
  const announcement = new Uint8Array(14);
  announcement[0] = segmentKinds.request;
  writeU32(announcement, 2, 9);
  writeU32(announcement, 10, 40);
  const bodies = [
    new Uint8Array(0),
    new Uint8Array(20).fill(5),
    announcement,
    new TextEncoder().encode('DEADLINE\nlate'),
  ];
  const singles = Array.from({ length: segmentKindMax }, (_, i) => i + 1).flatMap((kind) =>
    bodies.map((body) => framed([[kind, 0, kind, 40, body]])),
  );
  const conversation = framed([
    [segmentKinds.open, 0, 1, 65_536, bodies[1] as Uint8Array],
    [segmentKinds.data, 0, 1, 0, bodies[1] as Uint8Array],
    [segmentKinds.begin, 0, 4, 40, announcement],
    [segmentKinds.part, 0, 4, 0, bodies[1] as Uint8Array],
    [segmentKinds.part, 0, 4, 0, bodies[1] as Uint8Array],
    [segmentKinds.request, 0, 2, 1_000, bodies[1] as Uint8Array],
    [segmentKinds.cancel, 0, 2, 0, bodies[0] as Uint8Array],
    [segmentKinds.end, 0, 1, 0, bodies[0] as Uint8Array],
  ]);
  return [...singles, conversation, conversation];
}

function framed(segments: readonly (readonly [number, number, number, number, Uint8Array])[]): Uint8Array {
  const frame = new Uint8Array(1_024);
  return frame.slice(
    0,
    segments.reduce((at, segment) => writeSegment(frame, at, ...segment), 0),
  );
}

const limits = {
  ...defaultTransportLimits,
  messageBytesMax: 4_096,
  reassemblyBytesMax: 16_384,
  requestsInboundMax: 64,
};
const streamEvents = { chunk: () => {}, writable: () => {}, ended: () => {} };
const service: StreamService = {
  request: (_from, body, _remainingMs, reply) => reply({ ok: true, value: body.slice() }),
  notify: () => {},
  open: () => streamEvents,
};
/** Decompression is asynchronous and would never end in a synchronous run. */
const noCompression = { compress: () => {}, decompress: () => {} } as unknown as Compression;

function muxContext(): MuxContext {
  return {
    limits,
    counters: new TransportCounters(),
    log: () => {},
    admit: () => undefined,
    compression: noCompression,
    reassembly: new ByteBudget(limits.reassemblyBytesMax),
    bucket: () => new TokenBucket(1_000, 1_000, 0),
    service: () => service,
    onSessionAnnouncement: (_peer, body) => void readSessionAnnouncement(body),
  };
}

const segments: FuzzTarget = {
  name: 'segments',
  headerBytes: 1,
  corpus: segmentFrames(),
  reasonOf,
  attempt: (input) => {
    const events = { wake: () => {}, flush: () => {}, goodbye: () => {}, onProtocolError: () => {} };
    const mux = new Mux(peer, muxContext(), events);
    const outcomes: boolean[] = [];
    mux.request(Uint8Array.of(1), 0, 1_000, ({ ok }) => outcomes.push(ok));
    try {
      mux.receive(input, 1);
    } finally {
      mux.end('over');
    }
    if (outcomes.length !== 1) throw new Error(`a request ended ${outcomes.length} times`);
  },
};

const short = new Uint8Array(1).fill(1);
const framePlains = [short, ...[14, 40, 2_000].map((size) => new Uint8Array(size).fill(1))];

const frames: FuzzTarget = {
  name: 'frames',
  headerBytes: 4,
  corpus: framePlains.map((first) => {
    const sealer = new Sealer(key);
    return Buffer.concat([first, short, first].flatMap((plain) => sealFrame(sealer, plain)));
  }),
  reasonOf,
  attempt: (input) => {
    const opener = new Opener(key);
    const reader = new SealedFrameReader();
    // Split at a position that depends on the input, as a network does.
    const tear = (input[5] ?? 0) % (input.length + 1);
    for (const chunk of [input.subarray(0, tear), input.subarray(tear)]) {
      reader.read(chunk, (sealed) => {
        const plain = openFrame(opener, sealed);
        if (!framePlains.some((genuine) => plain.equals(genuine))) throw new Error('a forged frame was opened');
        return true;
      });
    }
  },
};

const datagrams: FuzzTarget = {
  name: 'datagrams',
  headerBytes: 0,
  corpus: [0, 20, 1_300].map((size) => {
    const header = {
      version: transportVersion,
      clusterTag: clusterTag(cluster),
      keyId: ring.current.keyId,
      recipientTag: recipientTag(peer.id),
      senderId: peer.id,
      generation: 3,
      salt: Buffer.alloc(16, 9),
      counter: 77,
    };
    return writeDatagram(header, { kind: 1, body: new Uint8Array(size) }, key, aad);
  }),
  reasonOf,
  attempt: (input) => {
    const packet = Buffer.from(input);
    const { counter } = readDatagramHeader(packet);
    if (openDatagram(packet, counter, key, aad) === undefined) throw new RejectedError('unauthenticated');
    assertGenuine(packet, datagrams);
  },
};

export const transportFuzzTargets: readonly FuzzTarget[] = [hello, greeting, sessions, segments, frames, datagrams];
