/** The membership host on fake ports: every caller that waits gets an end, whatever ends first. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { FakeClock } from '../../test/fakes/fake-clock.ts';
import { nodeIdFrom } from '../base/ids.ts';
import type { Identity } from '../base/ports.ts';
import { Random } from '../base/random.ts';
import { encodeMessage } from '../messages/catalogue.ts';
import { MembershipHost } from './membership-host.ts';
import { lanMembershipOptions } from './state/options.ts';

function identity(n: number): Identity {
  const id = nodeIdFrom(new Uint8Array(16).fill(n));
  return { id, name: `n${n}`, host: '10.0.0.1', port: n, generation: 1, roles: ['worker'], dc: 'dc1' };
}

/** Node 1 knows node 2, which answers no request. */
function hostWithSilentNeighbour() {
  const requests: Uint8Array[] = [];
  let receive: (from: Identity, body: Uint8Array) => void = () => {};
  const host = new MembershipHost(
    {
      clock: new FakeClock(),
      datagrams: { send: () => {}, receive: (handler) => void (receive = handler) },
      streams: {
        request: (_to, body) => {
          requests.push(body);
          return () => {};
        },
        watch: () => {},
      },
      random: new Random('host'),
    },
    { identity: identity(1), seeds: [], options: lanMembershipOptions, watchMainLoop: false },
    { event: () => {}, joined: () => {}, embedded: () => {}, saveHints: () => {}, onHalt: assert.fail },
  );
  host.start({ incarnation: 0, known: [] });
  const { id, generation } = identity(2);
  const join = { kind: 'join', id, generation, incarnation: 0, by: id, refused: false, entry: identity(2) } as const;
  receive(identity(2), encodeMessage({ kind: 'gossip', incarnation: 0, claims: [join] }));
  return { host, requests };
}

describe('a membership host', () => {
  test('ends the leaves that wait for a neighbour when it stops', () => {
    const { host, requests } = hostWithSilentNeighbour();
    const ends: string[] = [];
    host.leave('first', () => ends.push('first'));
    host.leave('second', () => ends.push('second'));
    assert.ok(requests.length > 0, 'the leave waits for the neighbour');
    assert.deepEqual(ends, []);
    host.stop();
    assert.deepEqual(ends, ['first', 'second']);
    host.stop();
    assert.deepEqual(ends, ['first', 'second']);
  });

  test('ends a leave at once after it stopped', () => {
    const { host } = hostWithSilentNeighbour();
    host.stop();
    let ended = false;
    host.leave('late', () => (ended = true));
    assert.ok(ended);
  });
});
