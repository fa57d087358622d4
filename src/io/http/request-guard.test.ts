import assert from 'node:assert/strict';
import { it } from 'node:test';
import { RequestGuard } from './request-guard.ts';

it('off loopback the request guard accepts IP addresses as Host, but no foreign names', () => {
  const guard = new RequestGuard({ host: '10.0.0.5', token: 'a token' });
  const check = (host: string) => guard.check({ method: 'GET', headers: { host } }, '/livez');
  check('10.0.0.5:8080');
  check('192.168.1.1');
  check('[fe80::1]:80');
  assert.throws(() => guard.check({ method: 'GET', headers: {} }, '/livez'), { code: 'FORBIDDEN' });
  for (const host of ['node.example', '10.0.0.5.example', '10.0.0.5@hostile', '[hostile]']) {
    assert.throws(() => check(host), { code: 'FORBIDDEN' });
  }
});
