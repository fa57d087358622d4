/**
 * Process that tells all running agents at one moment to join. A process of its own, because it must be in the network
 * namespace of the agents.
 *
 *   node bench/membership/joiner-main.ts remuster|serf SEED-ADDRESS CONTROL-PORT...
 */
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';

const [side = '', seed = '', ...ports] = process.argv.slice(2);
const host = '127.0.0.1';
const encoder = new TextEncoder();

function text(value: string): number[] {
  const bytes = [...encoder.encode(value)];
  return [0xa0 | bytes.length, ...bytes];
}

function header(command: string, sequence: number): number[] {
  return [0x82, ...text('Command'), ...text(command), ...text('Seq'), sequence];
}

const handshake = [...header('handshake', 0), 0x81, ...text('Version'), 1];
const serfJoin = [...header('join', 1), 0x82, ...text('Existing'), 0x91, ...text(seed), ...text('Replay'), 0xc2];

function httpJoin(port: string): string {
  const body = JSON.stringify({ addresses: [seed] });
  const lines = ['POST /v1/join HTTP/1.1', `host: ${host}:${port}`, 'content-type: application/json'];
  return `${[...lines, `content-length: ${body.length}`].join('\r\n')}\r\n\r\n${body}`;
}

function httpHealth(port: string): string {
  return `GET /livez HTTP/1.1\r\nhost: ${host}:${port}\r\n\r\n`;
}

async function open(port: string): Promise<Socket> {
  const socket = connect({ host, port: Number(port), noDelay: true });
  await once(socket, 'connect');
  socket.write(side === 'serf' ? Uint8Array.from(handshake) : httpHealth(port));
  await once(socket, 'data');
  return socket;
}

const sockets = await Promise.all(ports.map(open));
const replies = Promise.all(sockets.map((socket) => once(socket, 'data')));
process.stdout.write('joining\n');
for (const [i, socket] of sockets.entries()) {
  socket.write(side === 'serf' ? Uint8Array.from(serfJoin) : httpJoin(ports[i]!));
}
await Promise.race([replies, pause(60_000, undefined, { ref: false })]);
for (const socket of sockets) socket.destroy();
