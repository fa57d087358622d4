/** Proxy in front of etcd that drops, delays or cuts single exchanges. */
import { type IncomingMessage, type ServerResponse, createServer, request } from 'node:http';
import type { AddressInfo } from 'node:net';

/**
 * `loseReply`: etcd executes the request, and the reply is lost. `hang`: the request is lost without an error. `late`:
 * the connection breaks, and etcd executes the request when `releaseLate` is called. `refuse`: the connection breaks.
 */
export type ExchangeFate = 'pass' | 'loseReply' | 'hang' | 'late' | 'refuse';

export type EtcdFaultProxy = {
  readonly endpoint: string;
  fate: (path: string) => ExchangeFate;
  /** The path of every request, in order. */
  readonly paths: string[];
  /** Executes the late requests, and waits for their end. */
  releaseLate(): Promise<void>;
  /** Breaks the open watch streams. */
  cutStreams(): void;
  close(): Promise<void>;
};

export async function startEtcdFaultProxy(target: string): Promise<EtcdFaultProxy> {
  const late: (() => Promise<void>)[] = [];
  const streams = new Set<ServerResponse>();
  const paths: string[] = [];
  const server = createServer((incoming, outgoing) => {
    void exchange(incoming, outgoing);
  });
  const exchange = async (incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> => {
    const path = incoming.url ?? '';
    paths.push(path);
    const body = await readBody(incoming);
    const fate = proxy.fate(path);
    if (fate === 'hang') return;
    if (fate === 'refuse') return void outgoing.destroy();
    if (fate === 'late') {
      late.push(() => forward(target, path, incoming, body));
      outgoing.destroy();
      return;
    }
    if (path === '/v3/watch') {
      streams.add(outgoing);
      outgoing.once('close', () => streams.delete(outgoing));
    }
    await forward(target, path, incoming, body, fate === 'pass' ? outgoing : undefined);
    if (fate === 'loseReply') outgoing.destroy();
  };
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  const proxy: EtcdFaultProxy = {
    endpoint: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    fate: () => 'pass',
    paths,
    releaseLate: async () => void (await Promise.all(late.splice(0).map((run) => run()))),
    cutStreams: () => {
      for (const stream of streams) stream.destroy();
    },
    close: () => {
      server.closeAllConnections();
      return new Promise((done) => void server.close(() => done()));
    },
  };
  return proxy;
}

async function readBody(incoming: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of incoming as AsyncIterable<Buffer>) chunks.push(chunk);
  return Buffer.concat(chunks);
}

/** Resolves when the reply of etcd has ended; without `outgoing` the reply is discarded. */
function forward(
  target: string,
  path: string,
  incoming: IncomingMessage,
  body: Buffer,
  outgoing?: ServerResponse,
): Promise<void> {
  return new Promise((done) => {
    const headers = { ...incoming.headers, host: new URL(target).host };
    const sent = request(new URL(path, target), { method: 'POST', headers, agent: false }, (reply) => {
      reply.once('close', done);
      if (outgoing === undefined) {
        reply.resume();
        return;
      }
      outgoing.writeHead(reply.statusCode ?? 500, reply.headers);
      outgoing.flushHeaders();
      reply.pipe(outgoing);
      reply.once('error', () => outgoing.destroy());
    });
    outgoing?.once('close', () => sent.destroy());
    sent.once('error', () => {
      outgoing?.destroy();
      done();
    });
    sent.end(body);
  });
}
