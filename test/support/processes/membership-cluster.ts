/** Agents that all see each other, and what one of them saw of another. */
import assert from 'node:assert/strict';
import {
  type Agent,
  alive,
  event,
  type ListedMember,
  members,
  type NodeEvent,
  type ProcessLab,
} from './process-lab.ts';

/** Agents that all see each other, the first one the seed of the others. */
export async function cluster(
  lab: ProcessLab,
  names: readonly string[],
  words: readonly string[] = [],
): Promise<Agent[]> {
  const [first = '', ...others] = names;
  const seed = await lab.agent(first, words);
  const join = ['--join', `127.0.0.1:${seed.port}`, ...words];
  const agents = [seed, ...(await Promise.all(others.map((name) => lab.agent(name, join))))];
  await Promise.all(
    agents.flatMap((one) => agents.filter((other) => other !== one).map((other) => alive(one.addr, other.name))),
  );
  return agents;
}

export async function saw(by: Agent, type: string, member: string, more: Partial<NodeEvent> = {}): Promise<NodeEvent> {
  const fits = (found: NodeEvent): boolean =>
    found.type === type &&
    found.member === member &&
    Object.entries(more).every(([key, value]) => found[key] === value);
  return await event(by.addr, fits, `${by.name} to see ${type} ${member}`);
}

export async function rowOf(by: Agent, name: string): Promise<ListedMember> {
  return (await members(by.addr)).find((row) => row.name === name) ?? assert.fail(`${by.name} does not know ${name}`);
}
