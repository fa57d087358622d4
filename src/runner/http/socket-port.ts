/**
 * The socket port of the HTTP client: dial, write, close, events. node-sockets.ts implements it; tests pass in fakes.
 */
import type { ErrorCode } from '../../base/errors.ts';

export type SocketAddress = {
  readonly host: string;
  readonly port: number;
  /** TLS; otherwise plain TCP. */
  readonly isSecure: boolean;
  /** TLS without a look at the certificate. */
  readonly anyCertificate: boolean;
};

export type RawSocket = {
  /** Each character of `text` is one byte; `body` follows it. An error is not told here: it closes the wire. */
  write(text: string, body?: Uint8Array): void;
  /** Nothing is told afterwards. */
  close(): void;
};

/** Why a wire closed; undefined when the other side ended it in an orderly way. */
export type SocketError = { readonly code: ErrorCode; readonly message: string };

export type SocketEvents = {
  opened(): void;
  /** The first `length` bytes are new. They belong to the port and are only valid during the call. */
  read(bytes: Uint8Array, length: number): void;
  /** Once, and nothing after it. Never before the call that opened the wire has returned. */
  closed(fault: SocketError | undefined): void;
};

export type DialSocket = (address: SocketAddress, events: SocketEvents) => RawSocket;

/** A character for each byte. Handed in, because only the platform does it fast. */
export type DecodeLatin1 = (bytes: Uint8Array, from: number, to: number) => string;
