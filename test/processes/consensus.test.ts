/** Three managers as real processes whose leader is killed or stopped while others write. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  httpCall,
  cut,
  entries,
  history,
  Managers,
  put,
  told,
  fetchNodeStatus,
  until,
  Watched,
} from '../support/processes/manager-requests.ts';
import { loadPrefix, WriteLoad } from '../support/processes/write-load.ts';

const notHere = process.platform === 'win32' && 'signals that stop a process are unknown here';
const names = ['a', 'b', 'c'];

test('the leader is killed under load: nothing acknowledged is lost, nothing happens twice, and it catches up', async (context) => {
  const managers = await Managers.start(context, names);
  const { agent: killed, term, fence } = await managers.leader();
  const survivors = managers.others(killed);
  const watch = await Watched.open(context, survivors[0], loadPrefix);
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
  assert.deepEqual(managers.lab.bystandersDown(killed), []);

  // It leads again only with everything in its log, and then answers from its own copy.
  const back = await managers.restart(killed.name);
  await until(`${back.name} to lead`, async () => {
    await httpCall(survivors[0], 'POST', '/v1/transfer', { to: back.name });
    return (await fetchNodeStatus(back)).leader === back.name ? true : undefined;
  });
  assert.deepEqual(await entries(back, loadPrefix), found);
  assert.deepEqual(managers.lab.bystandersDown(killed), []);
});

test(
  'the leader is stopped and goes on later, while nobody tells it anything: it acts no more on what it was',
  {
    skip: notHere,
  },
  async (context) => {
    const managers = await Managers.start(context, names, ['--chaos']);
    const { agent: old, term, fence } = await managers.leader();
    const others = managers.others(old);
    assert.equal((await put(old, '/stop/shared', 'old')).code, 'OK');
    const watch = await Watched.open(context, others[0], loadPrefix);
    const load = new WriteLoad(others);
    await load.awaitWrites(50);
    old.kill('SIGSTOP');
    context.after(() => old.kill('SIGCONT'));
    await Promise.all(others.map((other) => cut(other, [old])));
    const next = await managers.leader(term, others);
    assert.notEqual(next.name, old.name);
    assert.ok(next.fence > fence);
    assert.equal((await put(others[0], '/stop/shared', 'new', 1)).code, 'OK');

    // These wait in front of the stopped process and are the first that it sees when it goes on.
    const conditional = Array.from({ length: 5 }, (_, n) => put(old, '/stop/shared', `late ${n}`, 1));
    const plain = Array.from({ length: 5 }, (_, n) => put(old, `/stop/plain${n}`, `late ${n}`));
    const reads = Array.from({ length: 5 }, () => httpCall(old, 'GET', '/v1/registry?key=/stop/shared'));
    await load.awaitWrites(50);
    old.kill('SIGCONT');
    const late = await Promise.all([...conditional, ...plain, ...reads]);
    for (const { code, body } of late) assert.notEqual(code, 'OK', JSON.stringify(body));
    await told(old, 'leader.lost', { term });
    assert.equal((await fetchNodeStatus(old)).leader, null);

    await Promise.all(others.map((other) => cut(other, [])));
    const last = await managers.leader(next.term - 1);
    assert.ok(last.fence >= next.fence);
    await until('a write through the old leader', async () =>
      (await put(old, '/stop/after', 'after')).code === 'OK' ? true : undefined,
    );
    await load.awaitWrites(50);
    await load.stop();
    context.diagnostic(`${load.summary}; late calls: ${late.map(({ code }) => code).join()}`);
    await load.verify(others[0], watch);
    const stopped = await entries(old, '/stop/');
    assert.deepEqual(
      stopped.map(({ key, value }) => [key, value]),
      [
        ['/stop/after', 'after'],
        ['/stop/shared', 'new'],
      ],
    );
    const again = (await history(old)).filter(({ type, leader }) => type === 'leader.elected' && leader === old.name);
    assert.ok(again.every((one) => one['term'] === term || Number(one['term']) > next.term));
    assert.deepEqual(managers.lab.bystandersDown(), []);
  },
);
