/** A dev cluster of three processes in a lab, and the check that it leaves nothing behind. */
import assert from 'node:assert/strict';
import { awaitBindable, type ChildProgram, eventually, filesIn, type ProcessLab, processIsUp } from './process-lab.ts';

export type DevNode = {
  id: string;
  name: string;
  pid: number;
  roles: string[];
  dc: string;
  host: string;
  port: number;
  httpPort: number;
};
export type Ready = { ready: true; admin: string; token: string; nodes: DevNode[] };

export const devSize = ['--gates', '1', '--managers', '1', '--workers', '1', '--port-base', '0'];

export async function startDev(lab: ProcessLab, ...args: string[]): Promise<{ dev: ChildProgram; ready: Ready }> {
  const dev = lab.program(['dev', '--with-parent', ...devSize, '-o', 'json', ...args]);
  const [line] = await dev.waitForOutput('stdout', /^\{"ready":true.*\}$/m);
  return { dev, ready: JSON.parse(line) as Ready };
}

export function devNodeOf(ready: Ready, name: string): DevNode & { addr: string } {
  const node = ready.nodes.find((one) => one.name === name);
  assert.ok(node);
  return { ...node, addr: `http://127.0.0.1:${node.httpPort}` };
}

export async function assertDevClusterGone(lab: ProcessLab, ready: Ready): Promise<void> {
  for (const { name, pid } of ready.nodes) await eventually(`${name} is gone`, () => !processIsUp(pid));
  await eventually(`no file is left: ${filesIn(lab.folder).join(' ')}`, () => filesIn(lab.folder).length === 0);
  for (const { port, httpPort } of ready.nodes) await Promise.all([awaitBindable(port), awaitBindable(httpPort)]);
}
