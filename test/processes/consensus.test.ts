/** Three managers as real processes; the leader is killed or stopped while clients write. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  httpCall,
  cutLinks,
  entries,
  fetchEvents,
  Managers,
  put,
  awaitNodeEvent,
  fetchNodeStatus,
  until,
  RegistryWatcher,
} from '../support/processes/manager-requests.ts';
import { loadPrefix, WriteLoad } from '../support/processes/write-load.ts';

const unsupported = process.platform === 'win32' && 'signals that stop a process are unknown here';
const names = ['a', 'b', 'c'];

test('no acknowledged write is lost or repeated when the leader is killed under load, and it catches up', async (context) => {
  const managers = await Managers.start(context, names);
  const { agent: killed, term, fence } = await managers.leader();
  const survivors = managers.others(killed);
  const watch = await RegistryWatcher.open(context, survivors[0], loadPrefix);
  const load = new WriteLoad(managers.all);
  await load.awaitWrites(200);
  await managers.kill(killed);
  const next = await managers.leader(term, survivors);
  assert.notEqual(next.name, killed.name);
  assert.ok(next.fence > fence);
  await load.awaitWrites(200);
  await load.stop();
  context.diagnostic(load.summary);
  const found = await load.verify(survivors[0], watch);
  assert.deepEqual(managers.lab.unexpectedExits(killed), []);

  // It leads again only with a complete log, and then serves reads from its own state.
  const back = await managers.restart(killed.name);
  await until(`${back.name} leads`, async () => {
    await httpCall(survivors[0], 'POST', '/v1/transfer', { to: back.name });
    return (await fetchNodeStatus(back)).leader === back.name ? true : undefined;
  });
  assert.deepEqual(await entries(back, loadPrefix), found);
  assert.deepEqual(managers.lab.unexpectedExits(killed), []);
});

test(
  'a leader that is stopped, cut off and continued does not act on its old leadership',
  {
    skip: unsupported,
  },
  async (context) => {
    const managers = await Managers.start(context, names, ['--chaos']);
    const { agent: former, term, fence } = await managers.leader();
    const others = managers.others(former);
    assert.equal((await put(former, '/stop/shared', 'old')).code, 'OK');
    const watch = await RegistryWatcher.open(context, others[0], loadPrefix);
    const load = new WriteLoad(others);
    await load.awaitWrites(50);
    former.kill('SIGSTOP');
    context.after(() => former.kill('SIGCONT'));
    await Promise.all(others.map((other) => cutLinks(other, [former])));
    const next = await managers.leader(term, others);
    assert.notEqual(next.name, former.name);
    assert.ok(next.fence > fence);
    assert.equal((await put(others[0], '/stop/shared', 'new', 1)).code, 'OK');

    // These wait in the sockets of the stopped process, which receives them first when it continues.
    const conditional = Array.from({ length: 5 }, (_, n) => put(former, '/stop/shared', `late ${n}`, 1));
    const plain = Array.from({ length: 5 }, (_, n) => put(former, `/stop/plain${n}`, `late ${n}`));
    const reads = Array.from({ length: 5 }, () => httpCall(former, 'GET', '/v1/registry?key=/stop/shared'));
    await load.awaitWrites(50);
    former.kill('SIGCONT');
    const late = await Promise.all([...conditional, ...plain, ...reads]);
    for (const { code, body } of late) assert.notEqual(code, 'OK', JSON.stringify(body));
    await awaitNodeEvent(former, 'leader.lost', { term });
    assert.equal((await fetchNodeStatus(former)).leader, null);

    await Promise.all(others.map((other) => cutLinks(other, [])));
    const last = await managers.leader(next.term - 1);
    assert.ok(last.fence >= next.fence);
    await until('a write through the former leader', async () =>
      (await put(former, '/stop/after', 'after')).code === 'OK' ? true : undefined,
    );
    await load.awaitWrites(50);
    await load.stop();
    context.diagnostic(`${load.summary}; late calls: ${late.map(({ code }) => code).join()}`);
    await load.verify(others[0], watch);
    const stopped = await entries(former, '/stop/');
    assert.deepEqual(
      stopped.map(({ key, value }) => [key, value]),
      [
        ['/stop/after', 'after'],
        ['/stop/shared', 'new'],
      ],
    );
    const again = (await fetchEvents(former)).filter(
      ({ type, leader }) => type === 'leader.elected' && leader === former.name,
    );
    assert.ok(again.every((one) => one['term'] === term || Number(one['term']) > next.term));
    assert.deepEqual(managers.lab.unexpectedExits(), []);
  },
);
