/** Mutual TLS below the sealed connections, with a certificate authority created for the test. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';

import {
  sendRequest,
  codeOf,
  counterOf,
  testTimeout,
  startTransportNode,
  text,
} from '../../../test/support/io/transport-nodes.ts';
import type { TlsOptions } from './transport.ts';

const folder = mkdtempSync(join(tmpdir(), 'remuster-tls-'));
after(() => rmSync(folder, { recursive: true }));

function openssl(...args: string[]): void {
  execFileSync('openssl', args, { cwd: folder, stdio: 'pipe' });
}

function makeAuthority(name: string): void {
  const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-keyout', `${name}.key`];
  openssl('req', '-x509', ...key, '-out', `${name}.pem`, '-days', '2', '-subj', `/CN=${name}`);
}

function makeCertificate(name: string, authority: string, subjectAltName: string, verifyHostname: boolean): TlsOptions {
  const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-keyout', `${name}.key`];
  openssl('req', ...key, '-out', `${name}.csr`, '-subj', `/CN=${name}`);
  writeFileSync(join(folder, `${name}.ext`), `subjectAltName=${subjectAltName}\n`);
  const sign = ['-CA', `${authority}.pem`, '-CAkey', `${authority}.key`, '-CAcreateserial', '-extfile', `${name}.ext`];
  openssl('x509', '-req', '-in', `${name}.csr`, ...sign, '-out', `${name}.pem`, '-days', '2');
  const read = (file: string): string => readFileSync(join(folder, file), 'utf8');
  return { certPem: read(`${name}.pem`), keyPem: read(`${name}.key`), caPem: read(`${authority}.pem`), verifyHostname };
}

test('mutual TLS connects members, and refuses foreign certificates and wrong host names', testTimeout, async () => {
  makeAuthority('ours');
  makeAuthority('theirs');
  const member = makeCertificate('member', 'ours', 'IP:127.0.0.1', true);
  const elsewhere = makeCertificate('elsewhere', 'ours', 'IP:10.9.8.7', true);
  const foreign = { ...makeCertificate('foreign', 'theirs', 'IP:127.0.0.1', true), caPem: member.caPem };
  const a = await startTransportNode('a', { tls: member });
  const b = await startTransportNode('b', { tls: member });
  assert.equal(codeOf(await sendRequest(a, b.self, text('x'))), 'ok');

  const misnamed = await startTransportNode('misnamed', { tls: elsewhere });
  assert.equal(codeOf(await sendRequest(a, misnamed.self, text('x'))), 'UNREACHABLE');
  const lenient = await startTransportNode('lenient', { tls: { ...member, verifyHostname: false } });
  assert.equal(codeOf(await sendRequest(lenient, misnamed.self, text('x'))), 'ok');

  const outsider = await startTransportNode('outsider', { tls: foreign });
  assert.notEqual(codeOf(await sendRequest(outsider, b.self, text('x'))), 'ok');
  assert.equal(counterOf(b, 'rejected.unauthenticated'), 1);
  const plain = await startTransportNode('plain');
  assert.notEqual(codeOf(await sendRequest(plain, b.self, text('x'))), 'ok');
  assert.equal(codeOf(await sendRequest(a, b.self, text('still fine'))), 'ok');
});
