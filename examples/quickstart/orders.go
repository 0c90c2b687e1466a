package main

import (
	"context"
	"fmt"
)

// OrderID names an order.
type OrderID string

// An Order is an order of a customer.
type Order struct{ ID OrderID }

// Service is the orders API.
//
//lockgen:service wait=3s
type Service interface {
	// Pay settles an order.
	//
	//lockgen:lock key=order:{o.ID}
	Pay(ctx context.Context, o *Order, cents int64) error
}

// orders is the Service without locks.
type orders struct{}

func (orders) Pay(_ context.Context, o *Order, cents int64) error {
	fmt.Printf("order %s: %d.%02d paid\n", o.ID, cents/100, cents%100)
	return nil
}
