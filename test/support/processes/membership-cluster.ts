/** Agents that all see each other alive, and what one of them reports of another. */
import assert from 'node:assert/strict';
import {
  type Agent,
  awaitAlive,
  awaitEvent,
  type ListedMember,
  fetchMembers,
  type NodeEvent,
  type ProcessLab,
} from './process-lab.ts';

/** Starts agents, the first one as the seed of the others, and waits until all see each other alive. */
export async function startAgents(
  lab: ProcessLab,
  names: readonly string[],
  args: readonly string[] = [],
): Promise<Agent[]> {
  const [first = '', ...others] = names;
  const seed = await lab.agent(first, args);
  const join = ['--join', `127.0.0.1:${seed.port}`, ...args];
  const agents = [seed, ...(await Promise.all(others.map((name) => lab.agent(name, join))))];
  await Promise.all(
    agents.flatMap((one) => agents.filter((other) => other !== one).map((other) => awaitAlive(one.addr, other.name))),
  );
  return agents;
}

export async function awaitMemberEvent(
  by: Agent,
  type: string,
  member: string,
  more: Partial<NodeEvent> = {},
): Promise<NodeEvent> {
  const fits = (found: NodeEvent): boolean =>
    found.type === type &&
    found.member === member &&
    Object.entries(more).every(([key, value]) => found[key] === value);
  return await awaitEvent(by.addr, fits, `${by.name} to report ${type} ${member}`);
}

export async function memberRow(by: Agent, name: string): Promise<ListedMember> {
  return (
    (await fetchMembers(by.addr)).find((row) => row.name === name) ?? assert.fail(`${by.name} does not know ${name}`)
  );
}
