/**
 * Cluster keys, derived from the secrets by HKDF-SHA-256. A key id names a secret without revealing it. Keys are
 * KeyObjects, which are never printed and are imported by OpenSSL only once.
 *
 *   secret -> master(cluster) -> hello key      authenticates the first bytes of a connection
 *                             -> key id         identifies the secret for the receiver
 *                             -> salted keys    one per direction of a connection, one per datagram session
 */
import { createHash, createHmac, createSecretKey, hkdfSync, type KeyObject } from 'node:crypto';

import { loopbackOnlySecret } from './secret-policy.ts';

export const transportVersion = 1;

export type Secrets = { readonly current: string | undefined; readonly previous: readonly string[] };

export type MasterKey = { readonly keyId: number; readonly key: KeyObject; readonly helloKey: KeyObject };

/** The key for sending, and all accepted keys. Replaced as a whole when secrets are rotated. */
export type KeyRing = { readonly current: MasterKey; readonly accepted: ReadonlyMap<number, MasterKey> };

export function makeKeyRing(cluster: string, secrets: Secrets): KeyRing {
  const current = makeMaster(cluster, secrets.current ?? loopbackOnlySecret);
  const accepted = new Map(secrets.previous.map((secret) => makeMaster(cluster, secret)).map((m) => [m.keyId, m]));
  return { current, accepted: accepted.set(current.keyId, current) };
}

function makeMaster(cluster: string, secret: string): MasterKey {
  const input = createSecretKey(secret, 'utf8');
  // The key id does not depend on the cluster, so a wrong cluster name is reported as such and not as a wrong key.
  const keyId = new DataView(hkdfSync('sha256', input, '', 'remuster/1 key id', 4)).getUint32(0);
  const key = deriveKey(input, new Uint8Array(0), `master ${cluster}`);
  return { keyId, key, helloKey: deriveKey(key, new Uint8Array(0), 'hello') };
}

export function deriveKey(from: KeyObject, salt: Uint8Array, purpose: string): KeyObject {
  return createSecretKey(new Uint8Array(hkdfSync('sha256', from, salt, `remuster/${transportVersion} ${purpose}`, 32)));
}

export function hmacSha256(key: KeyObject, bytes: Uint8Array): Uint8Array {
  return createHmac('sha256', key).update(bytes).digest();
}

/** Public and short: lets a receiver report a wrong cluster name instead of a failed authentication. */
export function clusterTag(cluster: string): number {
  return tag(`cluster ${cluster}`);
}

/** Lets a receiver report a datagram that was addressed to another node. */
export function recipientTag(nodeId: string): number {
  return tag(`node ${nodeId}`);
}

function tag(text: string): number {
  return createHash('sha256').update(text).digest().readUInt32BE(0);
}
