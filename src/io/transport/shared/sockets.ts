/**
 * The only file of the transport that creates sockets: TCP or TLS listener and UDP socket on one port number, outgoing
 * connections. Does not interpret bytes.
 */
import { createSocket, type Socket as UdpSocket } from 'node:dgram';
import { lookup, type LookupOneOptions } from 'node:dns';
import { once } from 'node:events';
import { connect as connectTcp, createServer, isIP, type OnReadOpts, type Server, type Socket } from 'node:net';
import { connect as connectTls, createServer as createTlsServer, type TLSSocket } from 'node:tls';

import { isRemusterError, RemusterError } from '../../../base/errors.ts';
import { type Address, portClosedReason } from '../../../base/ports.ts';

export type TlsOptions = {
  readonly certPem: string;
  readonly keyPem: string;
  readonly caPem: string;
  readonly verifyHostname: boolean;
};

export type BoundSockets = { readonly server: Server; readonly udp: UdpSocket; readonly port: number };

const bindAttemptsMax = 8;

/** One port number for both: TCP chooses it; if UDP cannot bind it, both retry with another one. */
export async function bindTcpAndUdp(bind: Address, tls: TlsOptions | undefined): Promise<BoundSockets> {
  for (let attempt = 1; ; attempt++) {
    const { server, port } = await listenStreams(bind, tls);
    try {
      const { udp } = await bindDatagrams({ host: bind.host, port });
      return { server, udp, port };
    } catch (error) {
      server.close();
      const clash = isRemusterError(error, 'UNREACHABLE') && bind.port === 0 && attempt < bindAttemptsMax;
      if (!clash) throw error;
    }
  }
}

export async function listenStreams(
  bind: Address,
  tls: TlsOptions | undefined,
): Promise<{ readonly server: Server; readonly port: number }> {
  const server = await listen({ host: numeric(bind.host), port: bind.port }, tls);
  const address = server.address();
  return { server, port: typeof address === 'object' && address !== null ? address.port : 0 };
}

export async function bindDatagrams(bind: Address): Promise<{ readonly udp: UdpSocket; readonly port: number }> {
  const udp = await bindUdp({ host: numeric(bind.host), port: bind.port });
  return { udp, port: udp.address().port };
}

function numeric(host: string): string {
  return host === 'localhost' ? '127.0.0.1' : host;
}

async function listen(bind: Address, tls: TlsOptions | undefined): Promise<Server> {
  const server =
    tls === undefined
      ? createServer({ noDelay: true })
      : createTlsServer({
          cert: tls.certPem,
          key: tls.keyPem,
          ca: tls.caPem,
          requestCert: true,
          rejectUnauthorized: true,
          minVersion: 'TLSv1.3',
          handshakeTimeout: 5_000,
        });
  server.listen({ host: bind.host, port: bind.port, backlog: 511 });
  await listening(server, 'listening', bind);
  return server;
}

async function bindUdp(bind: Address): Promise<UdpSocket> {
  const udp = createSocket({
    type: isIP(bind.host) === 6 ? 'udp6' : 'udp4',
    recvBufferSize: 1_024 * 1_024,
    sendBufferSize: 1_024 * 1_024,
    lookup: lookupAtOnce,
  });
  const isListening = listening(udp, 'listening', bind);
  udp.bind({ address: bind.host, port: bind.port, exclusive: true });
  try {
    await isListening;
  } catch (error) {
    udp.close();
    throw error;
  }
  return udp;
}

/** Nearly every datagram goes to an IP address, which needs neither a resolver nor another event loop turn. */
function lookupAtOnce(
  host: string,
  options: LookupOneOptions,
  done: (error: NodeJS.ErrnoException | null, address: string, family: number) => void,
): void {
  const family = isIP(host);
  if (family === 0) lookup(host, options, done);
  else done(null, host, family);
}

async function listening(socket: Server | UdpSocket, event: string, bind: Address): Promise<void> {
  try {
    await once(socket, event);
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code ?? 'error';
    throw new RemusterError('UNREACHABLE', `cannot listen on ${bind.host}:${bind.port}: ${code}`);
  }
}

/**
 * Outgoing sockets read into one shared buffer: each chunk is consumed before the next read. This avoids Node's stream
 * machinery and a new 64 KiB buffer per read, about a quarter of the cost of a small message. Node supports it for
 * outgoing sockets only.
 */
const sharedBuffer = Buffer.alloc(64 * 1_024);
const receivers = new WeakMap<Socket, { chunk: (bytes: Uint8Array) => void }>();

function sharedReading(receiver: { chunk: (bytes: Uint8Array) => void }): OnReadOpts {
  return {
    buffer: sharedBuffer,
    callback(bytes) {
      receiver.chunk(sharedBuffer.subarray(0, bytes));
      return true;
    },
  };
}

/** Calls `chunk` for received bytes; they are only valid during the call. */
export function receive(socket: Socket, chunk: (bytes: Uint8Array) => void): void {
  const receiver = receivers.get(socket);
  if (receiver === undefined) socket.on('data', chunk);
  else receiver.chunk = chunk;
}

/** Calls back once, with the connected socket or the reason of the failure. */
export function dial(
  to: Address,
  tls: TlsOptions | undefined,
  done: (socket: Socket | undefined, reason: string) => void,
): Socket {
  const socket = tls === undefined ? dialTcp(to) : dialTls(to, tls);
  let waiting = true;
  const settle = (connected: Socket | undefined, reason: string): void => {
    if (!waiting) return;
    waiting = false;
    done(connected, reason);
  };
  socket.once(tls === undefined ? 'connect' : 'secureConnect', () => settle(socket, ''));
  // Stays attached: an error after the callback must not end the process.
  socket.on('error', (error: NodeJS.ErrnoException) => settle(undefined, reasonOf(error)));
  socket.once('close', () => settle(undefined, 'closed while connecting'));
  return socket;
}

function dialTcp(to: Address): Socket {
  const receiver = { chunk: () => undefined };
  const socket = connectTcp({ host: to.host, port: to.port, noDelay: true, onread: sharedReading(receiver) });
  receivers.set(socket, receiver);
  return socket;
}

function reasonOf({ code }: NodeJS.ErrnoException): string {
  return code === 'ECONNREFUSED' ? portClosedReason : (code ?? 'cannot connect');
}

function dialTls(to: Address, tls: TlsOptions): TLSSocket {
  return connectTls({
    host: to.host,
    port: to.port,
    cert: tls.certPem,
    key: tls.keyPem,
    ca: tls.caPem,
    minVersion: 'TLSv1.3',
    ...(isIP(to.host) === 0 ? { servername: to.host } : {}),
    ...(tls.verifyHostname ? {} : { checkServerIdentity: () => undefined }),
  });
}
