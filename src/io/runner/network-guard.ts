/**
 * Denies a runner connections to cluster ports, link-local addresses and unix sockets.
 *
 * The guard replaces the methods of Node's native handles, below every network API of JavaScript, before user code is
 * loaded, and makes them read-only. User code may change every other object, so a guarded connect calls no method of a
 * prototype and destructures no array, which would call an iterator.
 */
import { createSocket } from 'node:dgram';
import { Resolver } from 'node:dns';
import { Socket } from 'node:net';
import { RemusterError } from '../../base/errors.ts';
import { canDenyNetwork } from './permission-flags.ts';
import {
  parseIpGroups,
  isLinkLocalGroups,
  isLoopbackGroups,
  isPrivateGroups,
  isNonUnicastGroups,
  ipGroupsKey,
} from './ip-groups.ts';

/** Sent by the parent: addresses of the cluster (members, registry, HTTP), and the hosts of this machine. */
export type NetworkDenyList = {
  readonly addresses: readonly (readonly [host: string, port: number])[];
  readonly ownHosts: readonly string[];
};

type Table = Record<string, true>;
type NativeMethod = (this: unknown, ...args: unknown[]) => unknown;

const { apply, ownKeys } = Reflect;
const { create, defineProperty, getPrototypeOf } = Object;
const permissionDenied = -13;
const aresCancelled = 24;
const handleName = '_handle';

/** Denied pairs of address and port. */
let deniedAddresses: Table = create(null) as Table;
/** Denied ports of hosts given by name, whose addresses are unknown here: denied on all private addresses. */
let portsOfNamedHosts: Table = create(null) as Table;
let deniedPorts: Table = create(null) as Table;
let ownAddresses: Table = create(null) as Table;

/** Called before user code is loaded, and whenever the cluster has changed. */
export function setNetworkDenyList({ addresses, ownHosts }: NetworkDenyList): void {
  deniedAddresses = create(null) as Table;
  portsOfNamedHosts = create(null) as Table;
  deniedPorts = create(null) as Table;
  ownAddresses = create(null) as Table;
  for (let at = 0; at < ownHosts.length; at++) {
    const groups = parseIpGroups(ownHosts[at] as string);
    if (groups !== undefined) ownAddresses[ipGroupsKey(groups)] = true;
  }
  for (let at = 0; at < addresses.length; at++) {
    const address = addresses[at] as NetworkDenyList['addresses'][number];
    const port = address[1];
    const groups = parseIpGroups(address[0]);
    deniedPorts[`${port}`] = true;
    if (groups === undefined) portsOfNamedHosts[`${port}`] = true;
    else deniedAddresses[`${ipGroupsKey(groups)} ${port}`] = true;
  }
}

export function isConnectAllowed(host: string, port: number): boolean {
  const groups = parseIpGroups(host);
  // Native handles get IP addresses only: a text that does not parse is not one.
  if (groups === undefined || isLinkLocalGroups(groups)) return false;
  if (deniedPorts[`${port}`] !== true) return true;
  const key = ipGroupsKey(groups);
  if (isLoopbackGroups(groups) || isNonUnicastGroups(groups) || ownAddresses[key] === true) return false;
  if (deniedAddresses[`${key} ${port}`] === true) return false;
  return !(portsOfNamedHosts[`${port}`] === true && isPrivateGroups(groups));
}

/** Replaces the native methods. Called once, before user code is loaded, with the pipe to the parent. */
export function installNetworkGuard(pipe: Socket): void {
  replace(nativeOf(pipe), ['connect', 'bind', 'listen'], () => () => permissionDenied);
  if (canDenyNetwork && !process.permission.has('net')) return;
  // Only for its handle: it is destroyed before it connects.
  const tcp = new Socket().connect(9, '127.0.0.1');
  const udp = createSocket('udp4');
  replace(nativeOf(tcp), ['connect', 'connect6'], guardedConnect);
  const datagrams = getPrototypeOf(udpHandle(udp)) as object;
  replace(datagrams, ['connect', 'connect6'], guardedDatagramConnect);
  replace(datagrams, ['send', 'send6'], guardedSend);
  replace(datagrams, ['setBroadcast'], () => () => permissionDenied);
  replace(nativeOf(new Resolver()), ['setServers'], () => () => aresCancelled);
  tcp.destroy();
  udp.close();
}

function nativeOf(holder: object): object {
  return getPrototypeOf((holder as Record<string, object>)[handleName]) as object;
}

function udpHandle(udp: object): object {
  for (const key of ownKeys(udp)) {
    const value = (udp as Record<PropertyKey, unknown>)[key];
    if (typeof value === 'object' && value !== null && 'handle' in value) return value.handle as object;
  }
  throw new RemusterError('INTERNAL', 'this version of Node has no known handle of datagram sockets');
}

function replace(prototype: object, names: readonly string[], guard: (original: NativeMethod) => NativeMethod): void {
  for (const name of names) {
    const original = (prototype as Record<string, NativeMethod>)[name];
    if (original === undefined)
      throw new RemusterError('INTERNAL', `this version of Node has no native method ${name} to guard`);
    defineProperty(prototype, name, { value: guard(original), writable: false, configurable: false });
  }
}

function asText(value: unknown): string {
  return `${value as string | number}`;
}

function asNumber(value: unknown): number {
  return (value as number) * 1;
}

/** Converts address and port once, so that an object cannot convert to another value after the check. */
function guardedConnect(original: NativeMethod): NativeMethod {
  return function connect(this: unknown, request, address, port) {
    const host = asText(address);
    const number = asNumber(port);
    return isConnectAllowed(host, number) ? apply(original, this, [request, host, number]) : permissionDenied;
  };
}

function guardedDatagramConnect(original: NativeMethod): NativeMethod {
  return function connect(this: unknown, address, port) {
    const host = asText(address);
    const number = asNumber(port);
    return isConnectAllowed(host, number) ? apply(original, this, [host, number]) : permissionDenied;
  };
}

function guardedSend(original: NativeMethod): NativeMethod {
  return function send(this: unknown, request, list, count, port, address, more) {
    // A connected socket: its address was checked by connect.
    if (address === undefined) return apply(original, this, [request, list, count, port]);
    const host = asText(address);
    const number = asNumber(port);
    return isConnectAllowed(host, number)
      ? apply(original, this, [request, list, count, number, host, more])
      : permissionDenied;
  };
}
