/** Client settings from options, environment and defaults. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isRemusterError } from '../base/errors.ts';
import { clientSettings } from './options.ts';

test('options override the environment, which overrides defaults', () => {
  const addr = '127.0.0.1:7400';
  assert.deepEqual(clientSettings({ addr }, {}), {
    addresses: [{ host: '127.0.0.1', port: 7_400 }],
    requestTimeoutMs: 10_000,
    retryTimeoutMs: 60_000,
    waitServerMs: 30_000,
    tryNewServers: 16,
  });
  const environment = { REMUSTER_CLIENT_RETRY_TIMEOUT: '-1', REMUSTER_WAIT_SERVER: '2.5' };
  const settings = clientSettings({ addr }, environment);
  assert.deepEqual([settings.retryTimeoutMs, settings.waitServerMs], [-1, 2_500]);
  assert.equal(clientSettings({ addr, retryTimeoutMs: 0 }, environment).retryTimeoutMs, 0);
  assert.equal(clientSettings({ addr }, { REMUSTER_CLIENT_RETRY_TIMEOUT: '0' }).retryTimeoutMs, 0);
});

test('addr takes several addresses, as text or as a list', () => {
  const expected = [
    { host: 'a', port: 1 },
    { host: '::1', port: 2 },
  ];
  assert.deepEqual(clientSettings({ addr: 'a:1, [::1]:2' }, {}).addresses, expected);
  assert.deepEqual(clientSettings({ addr: ['a:1', '[::1]:2'] }, {}).addresses, expected);
});

test('invalid values are refused with BAD_ARGUMENT', () => {
  const addr = 'a:1';
  for (const [options, environment] of [
    [{ addr: 'nonsense' }, {}],
    [{ addr: 'a:0' }, {}],
    [{ addr: 'a:70000' }, {}],
    [{ addr: [] }, {}],
    [{ addr, retryTimeoutMs: -2 }, {}],
    [{ addr, waitServerMs: Number.NaN }, {}],
    [{ addr }, { REMUSTER_WAIT_SERVER: 'soon' }],
  ] as const)
    assert.throws(
      () => clientSettings(options, environment),
      (error) => isRemusterError(error, 'BAD_ARGUMENT'),
      JSON.stringify(options),
    );
});
