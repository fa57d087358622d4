/**
 * Denies runner connections to cluster ports, link-local addresses and unix sockets by wrapping native handles. Calls
 * no prototype method at connect.
 *
 * It stands below everything that JavaScript can do with the network: the methods of the native handles are replaced,
 * and cannot be replaced again, before any code of users is there. Those come later and may change every other object,
 * so what runs here at a connect calls no method of any prototype, and takes no list apart (that asks an iterator).
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

/** What the parent says: members and other doors of the cluster, and the addresses of this machine. */
export type NetworkDenyList = {
  readonly places: readonly (readonly [host: string, port: number])[];
  readonly ownHosts: readonly string[];
};

type Table = Record<string, true>;
type NativeMethod = (this: unknown, ...words: unknown[]) => unknown;

const { apply, ownKeys } = Reflect;
const { create, defineProperty, getPrototypeOf } = Object;
const forbidden = -13;
const badServers = 24;
const handleName = '_handle';

let exact: Table = create(null) as Table;
/** Of hosts whose addresses only a name server knows: these ports are closed on all private addresses. */
let named: Table = create(null) as Table;
let everyPort: Table = create(null) as Table;
let own: Table = create(null) as Table;

/** Before the code of users is loaded, again whenever the cluster has changed. */
export function setNetworkDenyList({ places, ownHosts }: NetworkDenyList): void {
  exact = create(null) as Table;
  named = create(null) as Table;
  everyPort = create(null) as Table;
  own = create(null) as Table;
  for (let at = 0; at < ownHosts.length; at++) {
    const groups = parseIpGroups(ownHosts[at] as string);
    if (groups !== undefined) own[ipGroupsKey(groups)] = true;
  }
  for (let at = 0; at < places.length; at++) {
    const place = places[at] as NetworkDenyList['places'][number];
    const port = place[1];
    const groups = parseIpGroups(place[0]);
    everyPort[`${port}`] = true;
    if (groups === undefined) named[`${port}`] = true;
    else exact[`${ipGroupsKey(groups)} ${port}`] = true;
  }
}

export function isConnectAllowed(host: string, port: number): boolean {
  const groups = parseIpGroups(host);
  // What cannot be read is no address for the system either.
  if (groups === undefined || isLinkLocalGroups(groups)) return false;
  if (everyPort[`${port}`] !== true) return true;
  const address = ipGroupsKey(groups);
  if (isLoopbackGroups(groups) || isNonUnicastGroups(groups) || own[address] === true) return false;
  return exact[`${address} ${port}`] !== true && !(named[`${port}`] === true && isPrivateGroups(groups));
}

/** Replaces the native methods. To be called once, before the code of users is loaded, with the pipe to the parent. */
export function installNetworkGuard(pipe: Socket): void {
  replace(nativeOf(pipe), ['connect', 'bind', 'listen'], () => () => forbidden);
  if (canDenyNetwork && !process.permission.has('net')) return;
  // Destroyed before it has tried anything.
  const tcp = new Socket().connect(9, '127.0.0.1');
  const udp = createSocket('udp4');
  replace(nativeOf(tcp), ['connect', 'connect6'], guardedConnect);
  const datagrams = getPrototypeOf(udpHandle(udp)) as object;
  replace(datagrams, ['connect', 'connect6'], guardedDatagramConnect);
  replace(datagrams, ['send', 'send6'], guardedSend);
  replace(datagrams, ['setBroadcast'], () => () => forbidden);
  replace(nativeOf(new Resolver()), ['setServers'], () => () => badServers);
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
  throw new RemusterError('INTERNAL', 'this Node hides the handle of its datagrams');
}

function replace(prototype: object, names: readonly string[], guard: (original: NativeMethod) => NativeMethod): void {
  for (const name of names) {
    const original = (prototype as Record<string, NativeMethod>)[name];
    if (original === undefined) throw new RemusterError('INTERNAL', `this Node has no ${name} to be guarded`);
    defineProperty(prototype, name, { value: guard(original), writable: false, configurable: false });
  }
}

function asText(value: unknown): string {
  return `${value as string | number}`;
}

function asNumber(value: unknown): number {
  return (value as number) * 1;
}

/** Address and port become what they are once, so that they cannot be something else at the second look. */
function guardedConnect(original: NativeMethod): NativeMethod {
  return function connect(this: unknown, request, address, port) {
    const host = asText(address);
    const number = asNumber(port);
    return isConnectAllowed(host, number) ? apply(original, this, [request, host, number]) : forbidden;
  };
}

function guardedDatagramConnect(original: NativeMethod): NativeMethod {
  return function connect(this: unknown, address, port) {
    const host = asText(address);
    const number = asNumber(port);
    return isConnectAllowed(host, number) ? apply(original, this, [host, number]) : forbidden;
  };
}

function guardedSend(original: NativeMethod): NativeMethod {
  return function send(this: unknown, request, list, count, port, address, more) {
    // To whom it is connected was checked when that was done.
    if (address === undefined) return apply(original, this, [request, list, count, port]);
    const host = asText(address);
    const number = asNumber(port);
    return isConnectAllowed(host, number)
      ? apply(original, this, [request, list, count, number, host, more])
      : forbidden;
  };
}
