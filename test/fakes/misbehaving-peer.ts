/** A fake peer that knows the cluster secret, authenticates, and then breaks the transport protocol. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';

import type { Identity } from '../../src/base/ports.ts';
import {
  sendRequest,
  codeOf,
  identity,
  type TransportTestNode,
  secret,
  startTransportNode,
  text,
} from '../support/io/transport-nodes.ts';
import { SealedFrameReader, openFrame, sealFrame } from '../../src/io/transport/mux/sealed-frame.ts';
import {
  makeGreeting,
  makeHello,
  makeSealPair,
  readGreeting,
  saltBytes,
  type SealPair,
} from '../../src/io/transport/crypto/handshake.ts';
import { pairBinding } from '../../src/io/transport/crypto/identity-codec.ts';
import { makeKeyRing, transportVersion } from '../../src/io/transport/crypto/keys.ts';
import { segmentHeaderBytes, readSegments, writeSegment } from '../../src/io/transport/mux/segment.ts';

export type RawSegment = { kind: number; flags: number; id: number; argument: number; body: Buffer };

export async function rawSocket(port: number): Promise<{ socket: Socket; closed: Promise<number> }> {
  const socket = connect({ host: '127.0.0.1', port });
  let received = 0;
  socket.on('error', () => undefined);
  socket.on('data', (chunk) => {
    received += chunk.length;
  });
  // The number of bytes received until the other side closes.
  const closed = new Promise<number>((resolve) => socket.once('close', () => resolve(received)));
  await once(socket, 'connect');
  return { socket, closed };
}

export class MisbehavingPeer {
  readonly self: Identity;
  readonly received: RawSegment[] = [];
  readonly closed: Promise<void>;
  readonly socket: Socket;
  #seals: SealPair | undefined;
  #waiting: { isDone: () => boolean; resolve: () => void } | undefined;

  constructor(socket: Socket, self: Identity) {
    this.socket = socket;
    this.self = self;
    this.closed = new Promise((resolve) => socket.once('close', () => resolve()));
  }

  /** Connects and completes the handshake; afterwards it may send segments. */
  static async join(
    node: TransportTestNode,
    more: Partial<Identity> = {},
    changeGreeting: (greeting: Buffer) => Buffer = (greeting) => greeting,
  ): Promise<MisbehavingPeer> {
    const socket = connect({ host: '127.0.0.1', port: node.transport.port });
    socket.on('error', () => undefined);
    await once(socket, 'connect');
    const peer = new MisbehavingPeer(socket, identity('misbehaving', more));
    await peer.#handshake(changeGreeting);
    return peer;
  }

  async #handshake(changeGreeting: (greeting: Buffer) => Buffer): Promise<void> {
    const master = makeKeyRing('test', { current: secret, previous: [] }).current;
    const salt = randomBytes(saltBytes);
    this.socket.write(makeHello(master, 'test', salt));
    const reader = new SealedFrameReader();
    let head = Buffer.alloc(0);
    const greeted = Promise.withResolvers<void>();
    this.socket.on('data', (chunk: Buffer) => {
      let rest: Uint8Array = chunk;
      if (this.#seals === undefined) {
        head = Buffer.concat([head, chunk]);
        if (head.length < saltBytes) return;
        this.#seals = makeSealPair('client', master, 'test', { client: salt, server: head.subarray(0, saltBytes) });
        rest = head.subarray(saltBytes);
      }
      const { sealer, opener } = this.#seals;
      let isGreeting = this.received.length === 0 && !this.#greeted;
      reader.read(rest, (sealed) => {
        const plain = openFrame(opener, sealed);
        if (isGreeting) {
          isGreeting = false;
          this.#greeted = true;
          const peer = readGreeting(plain).identity;
          this.#write(changeGreeting(makeGreeting({ identity: this.self, sessions: Buffer.from([0]) })));
          sealer.bind(pairBinding(transportVersion, 'test', this.self, peer.id));
          opener.bind(pairBinding(transportVersion, 'test', peer, this.self.id));
          greeted.resolve();
        } else {
          this.#collect(plain);
        }
        return true;
      });
    });
    await greeted.promise;
  }

  #greeted = false;

  #collect(plain: Uint8Array): void {
    readSegments(plain, (kind, flags, id, argument, body) => {
      this.received.push({ kind, flags, id, argument, body: Buffer.from(body) });
    });
    if (this.#waiting?.isDone() === true) this.#waiting.resolve();
  }

  /** Waits for a received segment that fits. */
  async waitForSegment(fits: (segment: RawSegment) => boolean): Promise<RawSegment> {
    const found = (): RawSegment | undefined => this.received.find(fits);
    if (found() === undefined) {
      await new Promise<void>((resolve) => {
        this.#waiting = { isDone: () => found() !== undefined, resolve };
      });
    }
    return found()!;
  }

  send(kind: number, flags: number, id: number, argument: number, body: Uint8Array = new Uint8Array(0)): void {
    const frame = new Uint8Array(segmentHeaderBytes + body.length);
    writeSegment(frame, 0, kind, flags, id, argument, body);
    this.#write(frame);
  }

  /** Sends a frame with any plaintext. */
  sendPlain(plain: Uint8Array): void {
    this.#write(plain);
  }

  #write(plain: Uint8Array): void {
    this.socket.write(Buffer.concat(sealFrame(this.#seals!.sealer, plain)));
  }
}

/** The header of a large message for the request with id 5. */
export function transferHeaderBytes(kind: number, flags: number, rawBytes: number): Buffer {
  const body = Buffer.alloc(14);
  body[0] = kind;
  body[1] = flags;
  body.writeUInt32BE(5, 2);
  body.writeUInt32BE(1_000, 6);
  body.writeUInt32BE(rawBytes, 10);
  return body;
}

/** The node still serves a request of another peer. */
export async function assertUnharmed(node: TransportTestNode): Promise<void> {
  const other = await startTransportNode('other');
  assert.equal(codeOf(await sendRequest(other, node.self, text('still there?'))), 'ok');
  await other.transport.close();
}
