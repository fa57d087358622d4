/** The console in a real browser: nodes, a running job, a killed node, and no error on the page. */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { ProcessLab, awaitAlive } from '../support/processes/process-lab.ts';
import { openPage } from '../support/browser/chromium.ts';

const workflowText = `import { workflow } from 'remuster';
export default workflow('ticks', { vus: 4, duration: '60s', cores: 2, steps: { tick: async (ctx) => ctx.sleep(20) } });
`;

test('the console shows nodes, a running job and the death of a node', { timeout: 240_000 }, async (context) => {
  const lab = new ProcessLab(context);
  const manager = await lab.agent('m1', ['--roles', 'manager']);
  const join1 = ['--roles', 'worker', '--cores', '1', '--join', `127.0.0.1:${manager.port}`];
  const [w1, w2] = await Promise.all([lab.agent('w1', join1), lab.agent('w2', join1)]);
  await Promise.all([awaitAlive(manager.addr, 'w1'), awaitAlive(manager.addr, 'w2')]);
  const { page, pageErrors } = await openPage(context, manager.addr);
  for (const name of ['m1', 'w1', 'w2']) await page.locator(`[data-node=${name}][data-state=alive]`).waitFor();

  writeFileSync(join(lab.folder, 'ticks.ts'), workflowText);
  const submitted = await lab.run(['run', 'ticks.ts', '--detach', '--addr', manager.addr]);
  assert.equal(submitted.code, 0, submitted.stderr);
  await page.locator('#job[data-status=RUNNING]').waitFor();
  await page.locator('#jobs canvas').first().waitFor();

  w2.kill('SIGKILL');
  await page.locator('[data-node=w2][data-state=dead]').waitFor();
  await page.locator('#events li', { hasText: 'member.dead' }).first().waitFor();
  await page.locator('#incidents li', { hasText: 'w2' }).first().waitFor();
  assert.ok(w1.isUp && manager.isUp);
  assert.deepEqual(pageErrors, []);
});
