/** Bench: cost of sealing messages of 64 bytes, with three uses of AES-256-GCM. */
import { randomBytes } from 'node:crypto';

import { SealedFrameReader, openFrame, sealFrame } from '../src/io/transport/mux/sealed-frame.ts';
import { deriveKey, makeKeyRing } from '../src/io/transport/crypto/keys.ts';
import { Opener, Sealer, sealWith, writeNonce } from '../src/io/transport/crypto/seal.ts';
import { segmentKinds, readSegments } from '../src/io/transport/mux/segment.ts';
import { SendQueue } from '../src/io/transport/mux/send-queue.ts';
import { type Bench, compareRow, median, printProgress } from './support/harness.ts';

const rounds = 7;
const perFrame = 64;
const message = randomBytes(64);
const aad = randomBytes(48);
const salt = randomBytes(32);
const master = makeKeyRing('bench', { current: 'x9K!mPq2$vRt7wLz4#nB', previous: [] }).current.key;
const nonce = Buffer.alloc(12);

type Case = { readonly name: string; readonly messages: number; readonly run: (i: number) => void };

function sealWithDerivedKey(i: number): void {
  writeNonce(nonce, i);
  const key = deriveKey(master, Buffer.concat([salt, nonce]), 'message');
  sealWith(key, nonce, aad, message);
}

const cachedKey = deriveKey(master, salt, 'cached');

function sealWithCachedKey(i: number): void {
  sealWith(cachedKey, writeNonce(nonce, i), aad, message);
}

const queue = new SendQueue();
const sealer = new Sealer(cachedKey);

/** All steps from messages to the bytes for the socket: segment headers, sealing, length prefix. */
function sealFramed(): void {
  for (let i = 0; i < perFrame; i++) queue.push(segmentKinds.notify, 0, 0, 0, message);
  sealFrame(sealer, queue.next()!);
}

/** Opens one of the prepared frames per call. */
function openFramed(frames: number): () => void {
  const key = deriveKey(master, salt, 'opening');
  const sealing = new Sealer(key);
  const opening = new Opener(key);
  const source = new SendQueue();
  const sealed = Array.from({ length: frames }, () => {
    for (let i = 0; i < perFrame; i++) source.push(segmentKinds.notify, 0, 0, 0, message);
    return Buffer.concat(sealFrame(sealing, source.next()!));
  });
  const reader = new SealedFrameReader();
  return () =>
    reader.read(sealed.shift()!, (frame) => {
      readSegments(openFrame(opening, frame), () => undefined);
      return true;
    });
}

function usPerMessage({ messages, run }: Case, count: number): number {
  const start = process.hrtime.bigint();
  for (let i = 0; i < count; i++) run(i);
  return Number(process.hrtime.bigint() - start) / 1_000 / (count * messages);
}

export const bench: Bench = async () => {
  const frames = 1_000;
  const cases: readonly Case[] = [
    { name: 'derived', messages: 1, run: sealWithDerivedKey },
    { name: 'cached', messages: 1, run: sealWithCachedKey },
    { name: 'framed', messages: perFrame, run: sealFramed },
  ];
  const results = new Map<string, number[]>([...cases.map(({ name }) => name), 'opened'].map((name) => [name, []]));
  for (let round = 0; round <= rounds; round++) {
    for (const each of cases) {
      const us = usPerMessage(each, each.messages === 1 ? 10_000 : frames);
      if (round > 0) results.get(each.name)!.push(us);
    }
    const us = usPerMessage({ name: 'opened', messages: perFrame, run: openFramed(frames) }, frames);
    if (round > 0) results.get('opened')!.push(us);
    printProgress(`seal: round ${round} of ${rounds}`);
  }
  const at = (name: string): number => median(results.get(name)!);
  const [derivedUs, cachedUs, framedUs] = [at('derived'), at('cached'), at('framed')];
  const unit = 'us/message';
  return {
    rows: [
      compareRow(
        'seal messages of 64 B, 64 per frame',
        unit,
        'less',
        framedUs,
        { name: 'derived key per message (HKDF)', value: derivedUs },
        (ratio) => ({
          text: '<= 0.5 us and >= 20x cheaper',
          met: framedUs <= 0.5 && ratio >= 20,
        }),
      ),
      compareRow('seal messages of 64 B, 64 per frame', unit, 'less', framedUs, {
        ...{ name: 'one seal per message, cached key', value: cachedUs },
      }),
      compareRow('open messages of 64 B, 64 per frame', unit, 'less', at('opened')),
    ],
    missing: [],
  };
};
