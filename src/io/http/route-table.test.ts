import assert from 'node:assert/strict';
import { it } from 'node:test';
import type { ApiRoute } from '../../base/http-routes.ts';
import { RouteTable } from './route-table.ts';

it('the route table prefers literal segments and rejects duplicate routes', () => {
  const handler = async () => ({ status: 200, json: null });
  const route = (path: string, method: ApiRoute['method'] = 'GET'): ApiRoute => ({ method, path, handler });
  const table = new RouteTable([route('/a/:x'), route('/a/b'), route('/:y/b'), route('/a/b', 'DELETE')]);
  const found = (path: string, method = 'GET') => {
    const match = table.find(method, path);
    return match.kind === 'found' ? `${match.route.path} ${JSON.stringify(match.params)}` : match.kind;
  };
  assert.equal(found('/a/b'), '/a/b {}');
  assert.equal(found('/a/c'), '/a/:x {"x":"c"}');
  assert.equal(found('/c/b'), '/:y/b {"y":"c"}');
  assert.equal(found('/a/'), 'unknown');
  assert.equal(found('/a/b', 'PUT'), 'wrongMethod');
  assert.throws(() => new RouteTable([route('/a/:x'), route('/a/:y')]), /two routes/);
});
