/**
 * Implements the socket port with node:net and node:tls. All plain sockets share one read buffer, because a read is
 * consumed before the next one. Knows nothing of HTTP.
 */
import { Buffer } from 'node:buffer';
import { connect, isIP, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';

import type { DialSocket, DecodeLatin1, RawSocket, SocketAddress, SocketEvents, SocketError } from './socket-port.ts';

const readBytes = 65_536;
const readBuffer = Buffer.allocUnsafeSlow(readBytes);

export const latin1: DecodeLatin1 = (bytes, from, to) =>
  (bytes instanceof Buffer ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length)).toString(
    'latin1',
    from,
    to,
  );

export const dialSocket: DialSocket = (address, events) => {
  try {
    return rawSocket(open(address, events), events);
  } catch (error) {
    // Node refuses some addresses at once. The caller gets the error later, like all others.
    const socketError = socketErrorOf(error as NodeJS.ErrnoException);
    let isClosed = false;
    void Promise.resolve().then(() => (isClosed ? undefined : events.closed(socketError)));
    return {
      write: () => {},
      close: () => {
        isClosed = true;
      },
    };
  }
};

function rawSocket(socket: Socket, events: SocketEvents): RawSocket {
  let socketError: SocketError | undefined;
  let isClosed = false;
  socket.on('error', (error: NodeJS.ErrnoException) => {
    socketError = socketErrorOf(error);
  });
  socket.on('close', () => {
    if (!isClosed) events.closed(socketError);
    isClosed = true;
  });
  return {
    write: (text, body) => {
      if (body === undefined) {
        socket.write(text, 'latin1');
        return;
      }
      socket.cork();
      socket.write(text, 'latin1');
      socket.write(body);
      socket.uncork();
    },
    close: () => {
      isClosed = true;
      socket.destroy();
    },
  };
}

function open({ host, port, isSecure, anyCertificate }: SocketAddress, events: SocketEvents): Socket {
  if (isSecure) {
    // The server name selects the certificate; an IP address is not allowed as one.
    const name = isIP(host) === 0 ? { servername: host } : {};
    const tls = { rejectUnauthorized: !anyCertificate, ALPNProtocols: ['http/1.1'] };
    const socket = connectTls({ host, port, ...name, ...tls });
    socket.setNoDelay(true);
    socket.once('secureConnect', () => events.opened());
    socket.on('data', (chunk: Buffer) => events.read(chunk, chunk.length));
    return socket;
  }
  const callback = (length: number, buffer: Uint8Array): boolean => {
    events.read(buffer, length);
    return true;
  };
  const socket = connect({ host, port, noDelay: true, onread: { buffer: readBuffer, callback } });
  socket.once('connect', () => events.opened());
  return socket;
}

function socketErrorOf({ code, message }: NodeJS.ErrnoException): SocketError {
  if (code === 'ERR_ACCESS_DENIED') return { code: 'FORBIDDEN', message: 'this workflow may not use the network' };
  return { code: 'UNREACHABLE', message: code === undefined ? message : `${message} (${code})` };
}
