/** Places between the caller and the owner: forwarding nodes, calls of many containers, the client library. */
import assert from 'node:assert/strict';
import { RemusterError, failure, success } from '../../../src/base/errors.ts';
import { routeCallReplyOf } from '../../../src/containers/calls/call-messages.ts';
import { encodeMessage } from '../../../src/messages/catalogue.ts';
import { FakeCluster, counter, connectedSession } from '../../fakes/fake-cluster.ts';
import { CallHarness } from '../containers/call-harness.ts';
import type { Ending, Place } from './place.ts';

/** The owner runs the call, and its reply is lost with the connection. */
export function ranWithoutReply(timeoutMs = 20_000) {
  const scene = new CallHarness(['a', 'b', 'c'], 3);
  scene.losesReply = (kind) => kind === 'callReply';
  const call = scene.call('a', { route: { id: 1 }, timeoutMs });
  scene.advance(5);
  assert.equal(scene.ran.length, 1);
  const end = (): Ending => ({ outcome: call.endings[0]?.outcome, hasEffect: scene.ran.length > 0 });
  return { scene, end };
}

async function clientCall(cluster: FakeCluster): Promise<Ending> {
  const session = await connectedSession(cluster, { requestTimeoutMs: 3_000, retryTimeoutMs: 2_000 });
  const ended = await cluster.until(
    session
      .pool(counter, 'visits')
      .hash('x')
      .add(1)
      .then(
        () => success(undefined),
        (error: unknown) => ({ ok: false as const, error: error as RemusterError }),
      ),
  );
  return { outcome: ended, hasEffect: cluster.executed.length > 0 };
}

export const routingPlaces: readonly Place[] = [
  {
    place: 'forward: no owner was reachable',
    stateChanged: 'no',
    run: () => {
      const scene = new CallHarness(['a', 'b', 'c'], 3);
      scene.setOwner(1, undefined);
      const call = scene.call('a', { route: { id: 1 }, timeoutMs: 2_000 });
      scene.advance(3_000);
      return { outcome: call.endings[0]?.outcome, hasEffect: scene.ran.length > 0 };
    },
  },
  {
    place: 'forward: the reply is lost, and the owner is killed',
    stateChanged: 'maybe',
    run: () => {
      const { scene, end } = ranWithoutReply();
      scene.kill('b');
      scene.advance(60_000);
      return end();
    },
  },
  {
    place: 'forward: the reply is lost, and the pool is deleted',
    stateChanged: 'maybe',
    run: () => {
      const { scene, end } = ranWithoutReply();
      for (const { table } of scene.nodes) table.known.clear();
      scene.breakConnections('b');
      scene.advance(60_000);
      return end();
    },
  },
  {
    place: 'forward: the reply is lost, and the next owner does not know the method',
    stateChanged: 'maybe',
    run: () => {
      const { scene, end } = ranWithoutReply();
      scene.losesReply = () => false;
      scene.node('c').refusalCode = 'UNKNOWN_METHOD';
      scene.setOwner(1, 'c');
      scene.breakConnections('b');
      scene.advance(60_000);
      return end();
    },
  },
  {
    place: 'forward: the owner refuses the call',
    stateChanged: 'no',
    run: () => {
      const scene = new CallHarness(['a', 'b', 'c'], 3);
      scene.node('b').script = (_call, _run, done) => {
        done(failure('PRECONDITION', 'not now', 'no'));
        return undefined;
      };
      const call = scene.call('a', { route: { id: 1 } });
      scene.advance(5);
      return { outcome: call.endings[0]?.outcome, hasEffect: scene.ran.length > 0 };
    },
  },
  {
    place: 'forward: some containers of a broadcast have run',
    stateChanged: 'maybe',
    run: () => {
      const scene = new CallHarness(['a', 'b', 'c'], 3);
      scene.node('c').refusalCode = 'FORBIDDEN';
      const call = scene.call('a', { route: { broadcast: true } });
      scene.advance(5);
      return { outcome: call.endings[0]?.outcome, hasEffect: scene.ran.length > 0 };
    },
  },
  {
    place: 'forward: all containers have run, and the aggregation of their results fails',
    stateChanged: 'maybe',
    run: () => {
      const scene = new CallHarness(['a', 'b', 'c'], 3);
      const aggregate = (): never => {
        throw new RemusterError('BAD_ARGUMENT', 'no');
      };
      scene.node('a').definitions.set('counter', { name: 'counter', methods: { add: { run: () => 1, aggregate } } });
      const call = scene.call('a', { route: { broadcast: true } });
      scene.advance(5);
      return { outcome: call.endings[0]?.outcome, hasEffect: scene.ran.length > 0 };
    },
  },
  {
    place: 'client: the call runs through the first node, whose connection breaks, and other nodes refuse the retry',
    stateChanged: 'maybe',
    run: () => {
      const cluster = new FakeCluster(3);
      cluster.injectFault = (_node, call, reply) => {
        if (cluster.executed.length > 0) reply(failure('RATE_LIMITED'));
        else {
          cluster.run(call);
          reply(failure('NETWORK_TIMEOUT'));
        }
        return 'handled';
      };
      return clientCall(cluster);
    },
  },
  {
    place:
      'client: the call runs through the first node, whose connection breaks, and the next one does not know the pool',
    stateChanged: 'maybe',
    run: () => {
      const cluster = new FakeCluster(3);
      cluster.injectFault = (_node, call, reply) => {
        if (cluster.executed.length > 0) reply(success(encodeMessage(routeCallReplyOf(failure('UNKNOWN_POOL')))));
        else {
          cluster.run(call);
          reply(failure('NETWORK_TIMEOUT'));
        }
        return 'handled';
      };
      return clientCall(cluster);
    },
  },
  {
    place:
      'client: the call runs through the first node, whose connection breaks, and the next one has not loaded the module',
    stateChanged: 'maybe',
    run: () => {
      const cluster = new FakeCluster(3);
      cluster.injectFault = (_node, call, reply) => {
        const refused = failure('PRECONDITION', 'the module is not loaded on this node', 'no');
        if (cluster.executed.length > 0) reply(success(encodeMessage(routeCallReplyOf(refused))));
        else {
          cluster.run(call);
          reply(failure('NETWORK_TIMEOUT'));
        }
        return 'handled';
      };
      return clientCall(cluster);
    },
  },
  {
    place: 'client: every node refuses at once',
    stateChanged: 'no',
    run: () => {
      const cluster = new FakeCluster(3);
      cluster.injectFault = (_node, _call, reply) => {
        reply(failure('RATE_LIMITED'));
        return 'handled';
      };
      return clientCall(cluster);
    },
  },
];
