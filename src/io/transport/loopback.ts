/** Loopback hosts: a node without a secret or without host name checks may listen only there. */

const loopbackPattern = /^(localhost|::1|127\.\d{1,3}\.\d{1,3}\.\d{1,3}|::ffff:127\.\d{1,3}\.\d{1,3}\.\d{1,3})$/i;

export function isLoopback(host: string): boolean {
  return loopbackPattern.test(host);
}
