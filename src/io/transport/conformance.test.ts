/** Runs the conformance suites of Datagrams and Streams on the real transport. */
import type { TestContext } from 'node:test';

import { describeDatagrams } from '../../../test/simulation/conformance/datagrams.ts';
import { realWorld } from '../../../test/simulation/conformance/harness.ts';
import { describeStreams, type StreamsNode } from '../../../test/simulation/conformance/streams.ts';
import { realClock, identity, secret } from '../../../test/support/io/transport-nodes.ts';
import { openTransport, type Transport } from './transport.ts';

function cluster(t: TestContext) {
  const open = new Set<Transport>();
  t.after(() => Promise.all([...open].map((transport) => transport.close())));
  const start = async (self = identity('x'), port = 0) => {
    const transport = await openTransport({
      self,
      cluster: 'test',
      bind: { host: '127.0.0.1', port },
      secrets: { current: secret, previous: [] },
      admit: () => undefined,
      clock: realClock,
      log: () => undefined,
    });
    open.add(transport);
    const { datagrams, streams } = transport;
    return {
      self: { ...self, port: transport.port },
      datagrams,
      streams,
      clock: realClock,
      kill: () => transport.close(),
    };
  };
  return {
    ...realWorld,
    join: (name: string) => start(identity(name)),
    restart: ({ self }: StreamsNode) => start({ ...self, generation: self.generation + 1 }, self.port),
  };
}

describeDatagrams('the sealed datagram socket', cluster);
describeStreams('sealed connections', cluster);
