import assert from 'node:assert/strict';
import { isIP } from 'node:net';
import { describe, it } from 'node:test';
import { Random } from '../../base/random.ts';
import { parseIpGroups } from './ip-groups.ts';
import { setNetworkDenyList, isConnectAllowed } from './network-guard.ts';

/** The canonical form by URL, as an independent implementation. */
function canonical(address: string): string {
  return new URL(`http://[${address}]/`).hostname;
}

function formatGroups(groups: readonly number[] | undefined): string {
  assert.ok(groups !== undefined);
  return canonical(groups.map((group) => group.toString(16)).join(':'));
}

describe('parseIpGroups', () => {
  it('accepts all forms of an address', () => {
    for (const [text, same] of [
      ['127.0.0.1', '::ffff:127.0.0.1'],
      ['::ffff:7f00:1', '::ffff:127.0.0.1'],
      ['0:0:0:0:0:FFFF:7F00:0001', '::ffff:127.0.0.1'],
      ['::127.0.0.1', '::ffff:127.0.0.1'],
      ['1::', '1:0:0:0:0:0:0:0'],
      ['::', '0:0:0:0:0:0:0:0'],
      ['::1', '0:0:0:0:0:0:0:1'],
      ['1:2:3:4:5:6:7::', '1:2:3:4:5:6:7:0'],
      ['::2:3:4:5:6:7:8', '0:2:3:4:5:6:7:8'],
      ['64:ff9b::10.0.0.1', '64:ff9b::a00:1'],
      ['fe80::1%eth0', 'fe80::1'],
    ] as const) {
      assert.equal(formatGroups(parseIpGroups(text)), canonical(same), text);
    }
  });

  it('rejects text that is not an address', () => {
    for (const text of [
      '',
      'localhost',
      '1.2.3',
      '1.2.3.4.5',
      '256.1.1.1',
      '1.2.3.x',
      ':',
      ':::',
      '1::2::3',
      '1:2',
      '12345::',
    ]) {
      assert.equal(parseIpGroups(text), undefined, text);
    }
  });

  it('agrees with node:net and URL on random texts', () => {
    const random = new Random('addresses');
    let [valid, invalid] = [0, 0];
    for (let round = 0; round < 20_000; round++) {
      const parts = Array.from({ length: 1 + random.below(9) }, () =>
        random.pick(['', '0', '1', 'ff', 'FFFF', '0db8', '7f00', '10.0.0.1', '1.2.3']),
      );
      const text = parts.join(random.chance(0.9) ? ':' : '.');
      const groups = parseIpGroups(text);
      if (isIP(text) === 6) {
        valid += 1;
        // An IPv4-compatible address is normalized to an IPv4-mapped one.
        const isEmbedded = groups?.slice(0, 5).every((group) => group === 0) === true && groups[5] === 0xffff;
        if (!isEmbedded) assert.equal(formatGroups(groups), canonical(text), text);
      } else if (isIP(text) === 4) assert.ok(groups !== undefined, text);
      else {
        invalid += 1;
        assert.equal(groups, undefined, text);
      }
    }
    assert.ok(valid > 200 && invalid > 200, `only ${valid} valid and ${invalid} invalid addresses`);
  });
});

describe('isConnectAllowed', () => {
  it('denies cluster ports on members and on this machine, and link-local addresses', () => {
    setNetworkDenyList({
      addresses: [
        ['10.0.0.5', 7400],
        ['fd00::5', 7400],
        ['some.host', 7500],
      ],
      ownHosts: ['192.0.2.1'],
    });
    for (const [host, port, isAllowed] of [
      ['10.0.0.5', 7400, false],
      ['::ffff:10.0.0.5', 7400, false],
      ['fd00:0::5', 7400, false],
      ['10.0.0.6', 7400, true],
      ['10.0.0.5', 7401, true],
      ['127.0.0.1', 7400, false],
      ['127.1.2.3', 7400, false],
      ['0.0.0.0', 7400, false],
      ['::1', 7400, false],
      ['::', 7400, false],
      ['192.0.2.1', 7400, false],
      ['255.255.255.255', 7400, false],
      ['224.0.0.1', 7400, false],
      ['127.0.0.1', 80, true],
      ['10.9.9.9', 7500, false],
      ['192.168.0.1', 7500, false],
      ['8.8.8.8', 7500, true],
      ['169.254.169.254', 80, false],
      ['fe80::1%eth0', 80, false],
      ['febf::1', 80, false],
      ['no address', 80, false],
    ] as const) {
      assert.equal(isConnectAllowed(host, port), isAllowed, `${host} ${port}`);
    }
  });
});
