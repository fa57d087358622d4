/** Scenario files and their register are validated. */
import assert from 'node:assert/strict';
import { it } from 'node:test';
import { parseScenarioRegister, parseScenario } from './scenario.ts';

const good = {
  name: 'sample',
  nodes: 3,
  seconds: 10,
  workload: 'counter',
  faults: ['powerLoss'],
  properties: ['durableStaysDurable'],
};

const refused = { code: 'BAD_ARGUMENT' };

it('a scenario is parsed with defaults for its phases', () => {
  assert.deepEqual(parseScenario(good), { ...good, setupSeconds: 5, quietSeconds: 60 });
  assert.equal(parseScenario({ ...good, quietSeconds: 5 }).quietSeconds, 5);
});

it('a name that is not in the catalogue is refused', () => {
  assert.throws(() => parseScenario({ ...good, workload: 'dancing' }), { ...refused, message: /dancing.*counter/ });
  assert.throws(() => parseScenario({ ...good, faults: ['powerLoss', 'meteor'] }), { ...refused, message: /meteor/ });
  assert.throws(() => parseScenario({ ...good, properties: ['toString'] }), refused);
});

it('a scenario without properties, with repeated or unknown fields or bad numbers is refused', () => {
  const bad: unknown[] = [
    null,
    [],
    'echo',
    {},
    { ...good, properties: [] },
    { ...good, properties: 'viewsAgree' },
    { ...good, faults: ['kill', 'kill'] },
    { ...good, nodes: 0 },
    { ...good, nodes: 2.5 },
    { ...good, seconds: -1 },
    { ...good, name: 'No Name' },
    { ...good, comment: 'more' },
  ];
  for (const value of bad) assert.throws(() => parseScenario(value), refused, JSON.stringify(value));
});

it('an unregistered file and a registered file that is missing are refused', () => {
  assert.deepEqual([...parseScenarioRegister({ 'a.json': 3 }, ['a.json'])], [['a.json', 3]]);
  assert.throws(() => parseScenarioRegister({ 'a.json': 3 }, ['a.json', 'b.json']), {
    ...refused,
    message: /b\.json is not/,
  });
  assert.throws(() => parseScenarioRegister({ 'a.json': 3 }, []), { ...refused, message: /a\.json is registered but/ });
  assert.throws(() => parseScenarioRegister({}, []), refused);
  assert.throws(() => parseScenarioRegister({ 'a.json': 0 }, ['a.json']), refused);
});
