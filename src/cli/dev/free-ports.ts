/** Finds free ports for the nodes of a dev cluster: one for UDP and TCP, and one for HTTP, per node. */
import { createSocket } from 'node:dgram';
import { createServer } from 'node:net';
import { RemusterError } from '../../base/errors.ts';

export type NodePortPair = { readonly port: number; readonly httpPort: number };

const rangeStep = 200;
const rangesMax = 40;
/** The HTTP port of a node is its port plus this, which is easy to remember. */
const httpOffset = 100;

/** Returns the first free range at or above `base`. With 0 the system chooses every port. */
export async function choosePorts(
  base: number,
  count: number,
  host: string,
): Promise<{ base: number; ports: NodePortPair[] }> {
  if (base === 0) return { base, ports: Array.from({ length: count }, () => ({ port: 0, httpPort: 0 })) };
  for (let i = 0; i < rangesMax; i++) {
    const from = base + i * rangeStep;
    const ports = Array.from({ length: count }, (_, k) => ({ port: from + k, httpPort: from + httpOffset + k }));
    if (from + httpOffset + count > 65_535) break;
    if (await allFree(ports, host)) return { base: from, ports };
  }
  throw new RemusterError(
    'CAPACITY',
    `there are no ${count} consecutive free ports at or above ${base}: choose another --port-base`,
  );
}

async function allFree(ports: readonly NodePortPair[], host: string): Promise<boolean> {
  const checks = ports.flatMap(({ port, httpPort }) => [
    tcpFree(port, host),
    udpFree(port, host),
    tcpFree(httpPort, host),
  ]);
  return (await Promise.all(checks)).every(Boolean);
}

function tcpFree(port: number, host: string): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(false));
    server.listen({ port, host, exclusive: true }, () => server.close(() => resolve(true)));
  });
}

function udpFree(port: number, host: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = createSocket('udp4');
    socket.once('error', () => {
      socket.close();
      resolve(false);
    });
    socket.bind({ port, address: host, exclusive: true }, () => socket.close(() => resolve(true)));
  });
}
