import assert from 'node:assert/strict';
import fc from 'fast-check';
import { describe, test } from 'node:test';

import { traceMessageArbitrary } from '../../test/support/fuzz/trace-arbitraries.ts';
import { isRemusterError } from '../base/errors.ts';
import { type TraceMessage, parseTraceMessage, formatTraceMessage } from './trace-format.ts';
import { rejectionReason } from './codec/decode-error.ts';

function refuses(text: string, reason?: string): void {
  assert.throws(
    () => parseTraceMessage(text),
    (error) => (reason === undefined ? rejectionReason(error) !== undefined : rejectionReason(error) === reason),
    JSON.stringify(text),
  );
}

const ack: TraceMessage = { verb: 'ack', address: { host: '10.0.0.5', port: 8_000 }, updates: [], state: undefined };

describe('trace messages', () => {
  test('of each verb survive parsing and formatting', () => {
    const lines = [
      'probe>192.168.1.10:8001',
      'ack>192.168.1.5:8000#eyJub2RlX2lkIjoiLi4uIn0=',
      'ping-req>192.168.1.15:8002',
      'join>192.168.1.5:8000',
      'leave>192.168.1.5:8000',
      'alive:5>192.168.1.5:8000',
      'suspect:3>192.168.1.10:8001',
      'dead:3>192.168.1.10:8001',
      'pre-vote:5>192.168.1.5:8000',
      'pre-vote-response:5:true>192.168.1.10:8001',
      'vote-req:6>192.168.1.5:8000',
      'vote-response:6:false>192.168.1.10:8001',
      'leader:6>192.168.1.5:8000',
      'heartbeat:6>192.168.1.5:8000',
      'ack>192.168.1.5:8000|J:192.168.1.20:8003:0|A:192.168.1.10:8001:5',
      'ack>[2001:db8::1]:8000|L:[::1]:1:2|S:n3.cluster.local:8001:9|D:[::ffff:10.0.0.1]:0:1#AA==',
    ];
    for (const text of lines) assert.equal(formatTraceMessage(parseTraceMessage(text)), text);
  });

  test('are parsed into their parts', () => {
    assert.deepEqual(parseTraceMessage('pre-vote-response:5:true>[fe80::1%eth0]:1|D:b:2:3#AQI='), {
      verb: 'pre-vote-response',
      term: 5,
      granted: true,
      address: { host: 'fe80::1%eth0', port: 1 },
      updates: [{ change: 'dead', address: { host: 'b', port: 2 }, incarnation: 3 }],
      state: Uint8Array.of(1, 2),
    });
  });

  test('survive formatting and parsing', () => {
    fc.assert(
      fc.property(traceMessageArbitrary, (traceMessage) =>
        assert.deepEqual(parseTraceMessage(formatTraceMessage(traceMessage)), traceMessage),
      ),
    );
  });
});

describe('parsing rejects invalid text', () => {
  test('in verbs and their details', () => {
    for (const text of ['', '>', 'ack', 'ack>', '>a:1', 'ACK>a:1', 'nack>a:1', '__proto__>a:1', 'constructor:1>a:1'])
      refuses(text);
    for (const text of ['ack:1>a:1', 'alive>a:1', 'alive:x>a:1', 'alive:1:true>a:1', 'vote-response:1>a:1']) {
      refuses(text, 'grammarSentence');
    }
    for (const text of ['vote-response:1:yes>a:1', 'alive:-1>a:1', 'alive:>a:1', ' ack>a:1', 'ack >a:1']) refuses(text);
    refuses('alive:01>a:1', 'grammarNumber');
    refuses('alive:9007199254740992>a:1', 'grammarNumber');
    refuses('alive:99999999999999999>a:1', 'grammarSentence');
  });

  test('in addresses', () => {
    const addresses = [
      'a',
      'a:',
      ':1',
      'a:65536',
      'a:01',
      'a:-1',
      'a:1e3',
      'a b:1',
      '-a:1',
      'a-:1',
      '::1:1',
      '[::1]',
      '[a]:1',
      '[1.2.3.4]:1',
      '[:::]:1',
      '[1::2::3]:1',
      '[1:2:3:4:5:6:7]:1',
      '[1:2:3:4:5:6:7:8:9]:1',
      '[12345::]:1',
      '[::256.1.1.1]:1',
      '[::1%]:1',
      '[::1',
      '::1]:1',
      '[[::1]]:1',
      '[:1]:1',
      '[1:]:1',
      'a:1\n',
      'a\n:1',
      '\na:1',
      'a>b:1',
      'a\u202eb:1',
      '\u0430:1',
      'a:\u0661',
    ];
    for (const address of addresses) refuses(`probe>${address}`, 'grammarAddress');
  });

  test('in updates and states', () => {
    for (const update of ['', 'X:a:1:1', 'j:a:1:1', 'J:a:1', 'J:a:1:', 'J::1:1', 'J:a:1:1:', 'J:a:1:1.5', 'JL:a:1:1']) {
      refuses(`ack>a:1|${update}`);
    }
    for (const state of ['', 'A', 'AA', 'AAA', 'AB==', 'AA==AA==', 'A===', '====', 'AA=A', 'A A=', 'AA==\n', '_-==']) {
      refuses(`ack>a:1#${state}`, 'grammarState');
    }
    refuses('ack>a:1#AA==#AA==', 'grammarState');
    refuses('ack>a:1#AA==|J:a:1:1', 'grammarState');
  });

  test('beyond its length limits', () => {
    refuses(`ack>${'a'.repeat(5_000)}:1`, 'grammarLength');
    refuses(`ack>a:1${'|J:a:1:1'.repeat(65)}`, 'grammarLength');
    refuses(`ack>a:1#${btoa('x'.repeat(513))}`, 'grammarLength');
    refuses(`ack>a:1#${btoa('x'.repeat(600))}`, 'grammarLength');
    assert.equal(parseTraceMessage(`ack>a:1${'|J:a:1:1'.repeat(64)}#${btoa('x'.repeat(512))}`).updates.length, 64);
  });
});

describe('formatting rejects parts that would parse differently', () => {
  const hosts = ['a|J:b:1:1', 'a>b', 'a#AA==', 'a\nack>b', 'a:1', '[::1]', '', 'a b', '::1]:1|J:[::2', 'a'.repeat(256)];
  for (const host of hosts) {
    test(`the host ${JSON.stringify(host.slice(0, 20))}`, () => {
      const refused = (error: unknown) => isRemusterError(error, 'BAD_ARGUMENT');
      assert.throws(() => formatTraceMessage({ ...ack, address: { host, port: 1 } }), refused);
      const update = { change: 'join', address: { host, port: 1 }, incarnation: 0 } as const;
      assert.throws(() => formatTraceMessage({ ...ack, updates: [update] }), refused);
    });
  }

  test('numbers, states and verbs out of bounds', () => {
    const bad: readonly [object, string][] = [
      [{ ...ack, address: { host: 'a', port: 65_536 } }, 'BAD_ARGUMENT'],
      [{ ...ack, address: { host: 'a', port: 1.5 } }, 'BAD_ARGUMENT'],
      [{ ...ack, verb: 'alive', incarnation: -1 }, 'BAD_ARGUMENT'],
      [{ ...ack, verb: 'leader', term: 2 ** 53 }, 'BAD_ARGUMENT'],
      [{ ...ack, verb: 'nack' }, 'BAD_ARGUMENT'],
      [{ ...ack, state: new Uint8Array(0) }, 'BAD_ARGUMENT'],
      [{ ...ack, state: new Uint8Array(513) }, 'TOO_LARGE'],
      [
        {
          ...ack,
          updates: Array.from({ length: 65 }, () => ({ change: 'join', address: ack.address, incarnation: 0 })),
        },
        'TOO_LARGE',
      ],
    ];
    for (const [traceMessage, code] of bad) {
      assert.throws(
        () => formatTraceMessage(traceMessage as TraceMessage),
        (error) => isRemusterError(error) && error.code === code,
      );
    }
  });
});
