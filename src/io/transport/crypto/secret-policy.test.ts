import assert from 'node:assert/strict';
import { test } from 'node:test';

import { isRemusterError } from '../../../base/errors.ts';
import { isLoopback } from '../loopback.ts';
import { checkSecret, loopbackOnlySecret } from './secret-policy.ts';

test('weak secrets are refused with a message that does not contain them', () => {
  const weak = [
    '',
    'short',
    'fifteen chars!!',
    'aaaaaaaaaaaaaaaaaaaaaaaa',
    'abababababababababab',
    'abc123abc123abc123abc123',
    'abcdefghijklmnopqrst',
    '12345678901234567890',
    'qwertyuiopasdfghjkl',
    'passwordpassword1234',
    'changeme-changeme-123',
    'remuster-cluster-secret',
    'PasswordPassword123!',
    'zyxwvutsrqponmlkjihg',
  ];
  for (const secret of weak) {
    assert.throws(
      () => checkSecret(secret),
      (error) => isRemusterError(error, 'WEAK_SECRET') && (secret === '' || !error.message.includes(secret)),
      secret,
    );
  }
});

test('random secrets and long phrases are accepted', () => {
  for (const secret of [
    'x9K!mPq2$vRt7wLz',
    'QmFzZTY0IGVuY29kZWQgcmFuZG9tbmVzcw==',
    'correct horse battery staple lamp',
    '3f9a1c7be2d84056',
    loopbackOnlySecret,
  ]) {
    checkSecret(secret);
  }
});

test('isLoopback accepts loopback hosts only', () => {
  for (const host of ['127.0.0.1', '127.9.8.7', '::1', 'localhost', 'LOCALHOST', '::ffff:127.0.0.1']) {
    assert.equal(isLoopback(host), true, host);
  }
  for (const host of ['0.0.0.0', '::', '10.0.0.1', '127.example.org', 'localhost.example.org', '128.0.0.1', '']) {
    assert.equal(isLoopback(host), false, host);
  }
});
