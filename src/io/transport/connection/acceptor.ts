/**
 * Accepts sockets within bounds: half-open handshakes per address and in total, and connections. An error of one socket
 * never ends the listener.
 */
import type { Server, Socket } from 'node:net';

import type { Log } from '../../../base/ports.ts';
import type { TransportLimits } from '../shared/transport-limits.ts';
import type { RejectionLog } from '../shared/rejections.ts';

export type AcceptorOptions = {
  readonly limits: TransportLimits;
  readonly rejections: RejectionLog;
  readonly log: Log;
  connectionCount(): number;
  /** `release` ends the handshake of this socket; idempotent. */
  onAccept(socket: Socket, release: () => void): void;
};

export class Acceptor {
  readonly #server: Server;
  readonly #options: AcceptorOptions;
  readonly #perAddress = new Map<string, number>();
  #handshakes = 0;

  /** For TLS the event is `secureConnection`: until then Node's own handshake timeout applies. */
  constructor(server: Server, event: 'connection' | 'secureConnection', options: AcceptorOptions) {
    this.#server = server;
    this.#options = options;
    server.on(event, (socket: Socket) => this.#accept(socket));
    // No file descriptors left, or a reset during accept: the listener stays open.
    server.on('error', (error) => options.log('error', 'accepting a connection failed', { error: String(error) }));
    if (event === 'secureConnection') {
      server.on('tlsClientError', (_error: Error, socket: Socket) => {
        options.rejections.count('unauthenticated', socket.remoteAddress ?? '?');
      });
    }
  }

  close(done: () => void): void {
    this.#server.close(() => done());
  }

  #accept(socket: Socket): void {
    const { limits, rejections } = this.#options;
    const address = socket.remoteAddress ?? '?';
    const fromAddress = this.#perAddress.get(address) ?? 0;
    const tooMany = this.#handshakes >= limits.handshakesMax || fromAddress >= limits.handshakesPerAddressMax;
    if (tooMany || this.#options.connectionCount() >= limits.connectionsMax) {
      rejections.count(tooMany ? 'handshakeLimit' : 'connectionLimit', address);
      socket.on('error', () => undefined);
      socket.destroy();
      return;
    }
    this.#handshakes += 1;
    this.#perAddress.set(address, fromAddress + 1);
    let isReleased = false;
    this.#options.onAccept(socket, () => {
      if (isReleased) return;
      isReleased = true;
      this.#release(address);
    });
  }

  #release(address: string): void {
    this.#handshakes -= 1;
    const left = (this.#perAddress.get(address) ?? 1) - 1;
    if (left === 0) this.#perAddress.delete(address);
    else this.#perAddress.set(address, left);
  }
}
