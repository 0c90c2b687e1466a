package shop

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/redis/rueidis"
)

// A Store keeps records in a hash in Redis, where every replica sees them. It reads and writes
// whole records, and does not detect changes in between.
type Store struct {
	rc   rueidis.Client
	name string
}

// NewStore returns the Store in the hash called name.
func NewStore(rc rueidis.Client, name string) *Store {
	return &Store{rc: rc, name: name}
}

// Order reads an order.
func (s *Store) Order(ctx context.Context, id OrderID) (*Order, error) {
	b, err := s.get(ctx, "order:"+string(id)).AsBytes()
	if err != nil {
		return nil, fmt.Errorf("order %s: %w", id, err)
	}
	o := new(Order)
	if err := json.Unmarshal(b, o); err != nil {
		return nil, fmt.Errorf("order %s: %w", id, err)
	}
	return o, nil
}

// SaveOrder writes an order, and overwrites any other version.
func (s *Store) SaveOrder(ctx context.Context, o *Order) error {
	b, err := json.Marshal(o)
	if err == nil {
		err = s.set(ctx, "order:"+string(o.ID), string(b))
	}
	if err != nil {
		return fmt.Errorf("order %s: %w", o.ID, err)
	}
	return nil
}

// Stock reads how many pieces of an article are left.
func (s *Store) Stock(ctx context.Context, item SKU) (int64, error) {
	left, err := s.get(ctx, "stock:"+string(item)).AsInt64()
	if err != nil {
		return 0, fmt.Errorf("stock of %s: %w", item, err)
	}
	return left, nil
}

// SaveStock writes how many pieces of an article are left.
func (s *Store) SaveStock(ctx context.Context, item SKU, left int64) error {
	if err := s.set(ctx, "stock:"+string(item), strconv.FormatInt(left, 10)); err != nil {
		return fmt.Errorf("stock of %s: %w", item, err)
	}
	return nil
}

// Reports returns how many reports of a day were written.
func (s *Store) Reports(ctx context.Context, day string) (int64, error) {
	n, err := s.get(ctx, "day:"+day).AsInt64()
	if err != nil && !rueidis.IsRedisNil(err) {
		return 0, fmt.Errorf("reports of %s: %w", day, err)
	}
	return n, nil
}

// AddReport writes one more report of a day.
func (s *Store) AddReport(ctx context.Context, day string) error {
	cmd := s.rc.B().Hincrby().Key(s.name).Field("day:" + day).Increment(1).Build()
	if err := s.rc.Do(ctx, cmd).Error(); err != nil {
		return fmt.Errorf("reports of %s: %w", day, err)
	}
	return nil
}

func (s *Store) get(ctx context.Context, field string) rueidis.RedisResult {
	return s.rc.Do(ctx, s.rc.B().Hget().Key(s.name).Field(field).Build())
}

func (s *Store) set(ctx context.Context, field, value string) error {
	return s.rc.Do(ctx, s.rc.B().Hset().Key(s.name).FieldValue().FieldValue(field, value).Build()).Error()
}
