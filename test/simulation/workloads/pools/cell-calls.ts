/** Draws the calls of simulated clients and maps them to method calls and history keys. */
import type { Random } from '../../../../src/base/random.ts';
import type { CallResult } from '../../../../src/containers/contract.ts';
import type { Route } from '../../../../src/containers/module.ts';
import { decodeValue } from '../../../../src/messages/codec/value.ts';
import type { RegisterAction } from '../../checking/register-model.ts';

const hashKeys = ['a', 'b', 'c', 'd', 'e', 'f'];

export type PoolShape = { readonly name: string; readonly containers: number };

/** A planned call: one cell of one container, or the same cell of all containers. */
export type PlannedCellCall = {
  readonly pool: PoolShape;
  readonly cell: string;
  readonly route: Route;
  readonly action: RegisterAction;
};

/** `lastRead`: the value that a swap of this client expects. */
export function drawCellCall(random: Random, pool: PoolShape, call: string, lastRead: string): PlannedCellCall {
  const value = `<${call}>`;
  const draw = random.fraction();
  if (draw < 0.05) return { pool, cell: 'all', route: { broadcast: true }, action: { kind: 'read' } };
  if (draw < 0.1) return { pool, cell: 'all', route: { broadcast: true }, action: { kind: 'append', value } };
  const action = drawAction(random, value, lastRead);
  if (draw < 0.3) return { pool, cell: 'own', route: { id: random.below(pool.containers) }, action };
  const cell = random.pick(hashKeys);
  return { pool, cell, route: { hash: cell }, action };
}

function drawAction(random: Random, value: string, expected: string): RegisterAction {
  const draw = random.fraction();
  if (draw < 0.35) return { kind: 'read' };
  if (draw < 0.5) return { kind: 'put', value };
  if (draw < 0.85) return { kind: 'append', value };
  return { kind: 'swap', expected, value };
}

/** Client and key of a call in the history: a call of many containers is one call of each. */
export function historyKeysOf(
  client: string,
  { pool, cell, route }: PlannedCellCall,
): readonly { readonly client: string; readonly key: string }[] {
  if ('id' in route) return [{ client, key: `${pool.name}/${route.id}/${cell}` }];
  if (!('broadcast' in route)) return [{ client, key: `${pool.name}/${cell}` }];
  return Array.from({ length: pool.containers }, (_, n) => ({
    client: `${client}.${n}`,
    key: `${pool.name}/${n}/${cell}`,
  }));
}

/** Undefined: one container, chosen by the hash of the key. */
export function targetContainersOf({ pool, route }: PlannedCellCall): readonly number[] | undefined {
  if ('id' in route) return [route.id];
  return 'broadcast' in route ? Array.from({ length: pool.containers }, (_, n) => n) : undefined;
}

export function methodCallOf({ action, cell }: PlannedCellCall): {
  readonly method: string;
  readonly args: readonly unknown[];
} {
  const { kind } = action;
  if (kind === 'read') return { method: kind, args: [cell] };
  return { method: kind, args: kind === 'swap' ? [cell, action.value, action.expected] : [cell, action.value] };
}

/** The replies of all called containers, in the order of their numbers. */
export function replyTextsOf(result: CallResult): readonly string[] {
  if ('parts' in result) return result.parts.map((part) => (part.ok ? String(decodeValue(part.value)) : part.code));
  if (!('value' in result)) return ['a result stream'];
  const value = decodeValue(result.value);
  return Array.isArray(value) ? value.map(String) : [String(value)];
}
