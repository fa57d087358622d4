/**
 * The socket port of the HTTP client: dial, write, close, events. node-sockets.ts implements it; tests use fakes.
 */
import type { ErrorCode } from '../../base/errors.ts';

export type SocketAddress = {
  readonly host: string;
  readonly port: number;
  /** TLS; otherwise plain TCP. */
  readonly isSecure: boolean;
  /** TLS without a check of the certificate. */
  readonly anyCertificate: boolean;
};

export type RawSocket = {
  /**
   * Each character of `text` is one byte; `body` follows it. An error closes the socket and is reported by `closed`.
   */
  write(text: string, body?: Uint8Array): void;
  /** No events follow. */
  close(): void;
};

/** Why a socket closed. */
export type SocketError = { readonly code: ErrorCode; readonly message: string };

export type SocketEvents = {
  opened(): void;
  /** The first `length` bytes are new. They belong to the port and are valid during the call only. */
  read(bytes: Uint8Array, length: number): void;
  /** The last event, never before the call of `dial` has returned. Undefined: the server closed it in order. */
  closed(error: SocketError | undefined): void;
};

export type DialSocket = (address: SocketAddress, events: SocketEvents) => RawSocket;

/** One character per byte. A port, because only the platform does it fast. */
export type DecodeLatin1 = (bytes: Uint8Array, from: number, to: number) => string;
